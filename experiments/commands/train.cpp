// cbwc train CONFIG [--out DIR] | --resume DIR
#include <fmt/format.h>

#include <filesystem>

#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/missing_data.h"
#include "experiments/model_setup.h"
#include "experiments/out_path.h"
#include "experiments/report.h"
#include "experiments/run_directory.h"
#include "experiments/train_run.h"

namespace cbwc {
namespace {

struct Options {
  std::string config, out, resume, init;
  std::vector<std::string> sets;
  bool change_steps = false;
};

RunRequest make_request(const Options& options) {
  RunRequest request;
  request.change_steps = options.change_steps;
  if (!options.resume.empty()) {
    CBWC_CHECK(options.out.empty(), "--out and --resume exclude each other");
    CBWC_CHECK(options.init.empty(), "--init and --resume exclude each other");
    CBWC_CHECK(std::filesystem::exists(options.resume + "/metrics.csv") ||
                   !std::filesystem::exists(options.resume + "/runs"),
               "--resume ", options.resume,
               ": is a comparison; `cbwc compare` with the same configs and --out goes on with it");
    request.resume = true;
    request.dir = options.resume;
    request.config = RunDirectory::open(options.resume).config();
    if (options.config.empty()) {
      request.config = apply_sets(request.config, options.sets);
      return request;
    }
  }
  CBWC_CHECK(!options.config.empty(), "train: a CONFIG or --resume DIR is needed");
  request.config = load_config(options.config, options.sets);
  make_paths_absolute(request.config);
  if (request.resume) return request;
  Config& c = request.config;
  if (!options.init.empty()) c.run.init = options.init;
  c.run.init = absolute_path(c.run.init);
  if (!options.out.empty()) c.run.out = options.out;
  if (c.run.out.empty())
    c.run.out = "runs/" + std::filesystem::path(options.config).stem().string();
  request.dir = c.run.out;
  return request;
}

int run(const Options& options, const CommandContext& context) {
  require_cpu(context.global.device);
  RunRequest request = make_request(options);
  print_unread_sizes(request.config);
  check_can_make(request.dir);
  check_command_json(context, request.dir);
  request.quiet = context.global.quiet;
  request.title = request.config.model.norm;
  request.exactness = true;
  make_missing_data(request.config);
  const RunOutcome outcome = train_run(request);
  fmt::print(
      "{}: seed {}, {} steps, val loss {:.4f}, {:.1f} ms per step, {:.0f} {}/s, peak "
      "{:.0f} MB\n{}\n",
      outcome.arm, outcome.seed, outcome.steps, outcome.val_loss, outcome.step_ms_median,
      outcome.tokens_per_s, target_unit(request.config), outcome.peak_mb, request.dir);
  write_command_json(context, "train", config_json(request.config), outcome_json(outcome));
  if (outcome.diverged_at >= 0) throw RunError(outcome.message);
  if (!outcome.message.empty()) fmt::print("{}\n", outcome.message);
  write_report(request.dir, outcome_notes(outcome));
  return 0;
}

}  // namespace

void add_train_command(CommandLine app, CommandContext& context) {
  auto o = std::make_shared<Options>();
  CommandLine command = app.add_subcommand("train", "one training run");
  command.add_option("config", o->config, "config file or the name of a shipped one")
      .type_name("CONFIG");
  add_set_option(command, o->sets);
  command.add_option("--out", o->out, "run directory, new (default: run.out)").type_name("DIR");
  command.add_option("--resume", o->resume, "go on with the run in DIR, bit for bit")
      .type_name("DIR");
  command
      .add_option("--init", o->init,
                  "start from the weights of a run, a checkpoint or a folded model (default: "
                  "run.init)")
      .type_name("DIR");
  command.add_flag("--change-steps", o->change_steps,
                   "with --resume: allow another run.steps (it moves the schedule)");
  command.callback([o, &context] { context.exit_code = run(*o, context); });
}

}  // namespace cbwc
