// cbwc bench infer [MODEL...]
#include "experiments/bench_infer.h"

#include <fmt/format.h>

#include <filesystem>

#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/model_setup.h"
#include "experiments/out_path.h"
#include "experiments/report_run.h"
#include "experiments/unfold.h"

namespace cbwc {
namespace {

struct Options {
  std::vector<std::string> models, sets, from;  // from: JSON files of earlier runs
  std::string plot, table;
  bool plan = false;
  InferBenchOptions bench;
};

bool is_run(const std::string& name) {
  return std::filesystem::is_directory(name) || std::filesystem::path(name).extension() == ".h5";
}

// For a model that has no run.name.
std::string name_of(const std::string& model) {
  const std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

Config named(Config config, const std::string& model) {
  if (config.run.name.empty()) config.run.name = name_of(model);
  return config;
}

InferPlan plan_of(const std::string& name, const Options& o, nlohmann::json& configs) {
  const bool run = is_run(name);
  const Config config = run ? load_model(name, o.sets).config : load_config(name, o.sets);
  if (!run) print_unread_sizes(config);
  configs[name] = config_json(config);
  return plan_infer(named(config, name), o.bench, run ? most_positions(config) : 0);
}

// Before anything is measured, so that nobody waits for what was not wanted.
void print_plan(const Options& o, const CommandContext& context) {
  double seconds = 0;
  std::string text;
  std::vector<InferPlan> plans;
  nlohmann::json configs = nlohmann::json::object();
  for (const std::string& name : o.models) {
    if (is_run(name) && !o.plan) continue;  // it is planned when it is read
    plans.push_back(plan_of(name, o, configs));
    text += infer_plan_text(plans.back());
    seconds += plans.back().seconds();
  }
  if (o.plan) write_command_json(context, "bench infer", configs, infer_plans_json(plans));
  if (!text.empty())
    fmt::print("the plan, by estimates from one matrix product (about {:.0f} min in all):\n{}\n",
               std::ceil(seconds / 60), text);
  std::fflush(stdout);
}

InferBench measure(const std::string& name, const Options& o, nlohmann::json& configs) {
  if (!is_run(name)) {
    const Config config = load_config(name, o.sets);
    configs[name] = config_json(config);
    return bench_infer(named(config, name), o.bench);
  }
  const LoadedModel loaded = load_model(name, o.sets);
  configs[name] = config_json(loaded.config);
  if (loaded.folds.empty()) return bench_infer(named(loaded.config, name), o.bench, &loaded);
  const LoadedModel before = unfolded(loaded);
  return bench_infer(named(before.config, name), o.bench, &before, &loaded);
}

// The picture and the tables, of earlier runs and this one.
void show(const Options& o, const std::vector<InferBench>& measured) {
  std::vector<nlohmann::json> results;
  for (const std::string& file : o.from) {
    const nlohmann::json json = read_json(file);
    const std::string command = json.value("command", "");
    CBWC_CHECK(command == "bench infer" || command == "bench decode", file,
               ": is not what `cbwc bench infer` or bench_peer.py write with --json FILE");
    results.push_back(json.at("results"));
  }
  if (!measured.empty()) results.push_back(infer_bench_json(measured));
  if (!o.table.empty()) {
    write_text_file(o.table, infer_markdown(results));
    fmt::print("{}\n", o.table);
  }
  if (o.plot.empty()) return;
  const std::string svg = infer_plot_svg(results);
  CBWC_CHECK(!svg.empty(), "bench infer --plot: there is no speedup to draw");
  write_text_file(o.plot, svg);
  fmt::print("{}\n", o.plot);
}

int run(Options o, const CommandContext& context) {
  require_cpu(context.global.device);
  CBWC_CHECK(o.from.empty() || !o.plot.empty() || !o.table.empty(),
             "bench infer: --from is for --plot FILE.svg or --table FILE.md");
  CBWC_CHECK(o.plot.empty() || have_gnuplot(),
             "bench infer: --plot needs gnuplot (apt-get install gnuplot-nox)");
  if (!o.plot.empty()) check_can_write(o.plot, kPicture);
  if (!o.table.empty()) check_can_write(o.table, kMarkdown);
  if (o.models.empty() && o.from.empty())
    o.models = {"gpt2_124m", "bert_base", "opt_125m", "phi_1", "vit_b16", "swin_tiny"};
  print_plan(o, context);
  if (o.plan) return 0;
  std::vector<InferBench> results;
  nlohmann::json configs = nlohmann::json::object();
  bool any = false;
  for (const std::string& name : o.models) {
    results.push_back(measure(name, o, configs));
    fmt::print("{}{}", results.size() > 1 ? "\n" : "", infer_bench_table(results.back()));
    std::fflush(stdout);
    any |= !results.back().rows.empty();
    // After each model: a run that is stopped keeps what it has.
    write_command_json(context, "bench infer", configs, infer_bench_json(results));
  }
  if (!o.plot.empty() || !o.table.empty()) show(o, results);
  return any || o.models.empty() || !o.bench.timing ? 0 : 1;
}

void add_fold_flags(CommandLine command, InferBenchOptions& o) {
  command.add_flag("--float64", o.float64,
                   "also fold and compare in float64, where the memory is enough");
  command.add_flag_callback(
      "--no-timing", [&o] { o.timing = false; }, "fold and compare alone");
  command.add_flag("--affine", o.affine,
                   "in the folded arm also move gains and biases into the Linears that read them");
  command.add_flag("--carry-mean", o.carry_mean, "fold as `cbwc fold --carry-mean` does");
  command.add_flag("--auxiliary-centring", o.fold.auxiliary_centring,
                   "fold as `cbwc fold --auxiliary-centring` does");
}

}  // namespace

void add_infer_bench(CommandLine bench, CommandContext& context) {
  auto o = std::make_shared<Options>();
  CommandLine command = bench.add_subcommand(
      "infer",
      "one forward pass: LayerNorm, the same weights folded, no norm; interleaved (and, where "
      "not all norms fold, all RMSNorm, for its time alone)");
  command.add_option("MODEL", o->models,
                     "configs (files or bare names), measured with random weights, or runs, "
                     "Hugging Face folders and what `cbwc fold` made of either "
                     "(default gpt2_124m bert_base opt_125m phi_1 vit_b16 swin_tiny)");
  add_set_option(command, o->sets);
  command.add_option("--shapes", o->bench.shapes,
                     "BATCHxSEQ ..., at most 16384 tokens; images: BATCH (default 1 and 8 x 128 "
                     "512 2048 4096 16384; images 1 8)");
  command
      .add_option("--seconds", o->bench.seconds,
                  "time for each shape, all arms together, in seconds (default 5)")
      .check(at_least(0));
  command
      .add_option("--least-repeats", o->bench.least_repeats,
                  "timed passes of each arm, however long (default 6, the fewest that "
                  "give a 95 % interval)")
      .check(between(6, 1'000'000));
  command
      .add_option("--most-seconds", o->bench.most_seconds,
                  "leave out a shape whose least repeats would take longer (default 600)")
      .check(above(0));
  command
      .add_option("--memory", o->bench.memory_gb,
                  "leave out a model whose arms need more, in GB (default: what is free)")
      .check(above(0));
  command
      .add_option("--decode", o->bench.decode,
                  "decoders: tokens to decode one by one after each shape's prompt (default 32; "
                  "0: none)")
      .check(at_least(0));
  command.add_option("--plot", o->plot, "draw the speedups over the sequence length (SVG)")
      .type_name("FILE");
  command.add_option("--table", o->table, "the results as Markdown tables").type_name("FILE");
  command
      .add_option("--from", o->from,
                  "show with --plot or --table what earlier runs wrote with --json; without MODEL "
                  "nothing is measured")
      .type_name("FILE");
  command.add_flag("--plan", o->plan, "only say what would be run, and how long it would take");
  add_fold_flags(command, o->bench);
  command.callback([o, &context] { context.exit_code = run(*o, context); });
}

}  // namespace cbwc
