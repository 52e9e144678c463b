// cbwc compare CONFIG...
#include "experiments/compare.h"

#include <fmt/format.h>

#include <filesystem>

#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/missing_data.h"
#include "experiments/model_setup.h"
#include "experiments/out_path.h"
#include "experiments/overview.h"
#include "experiments/report.h"
#include "experiments/training_data.h"

namespace cbwc {
namespace {

struct Options {
  std::vector<std::string> configs, sets;
  std::string out;
};

// What is wrong with a study is said before the first one trains.
void check_study(const Config& config) {
  make_missing_data(config);
  const TrainingData data = open_data(config);
  for (const Variant& variant : expand_sweep(config)) {
    const Config c = apply_sets(config, variant.sets);
    build_model(c, data.shape, static_cast<uint64_t>(c.run.seeds.at(0)));
  }
}

int run(const Options& options, const CommandContext& context) {
  require_cpu(context.global.device);
  std::vector<std::pair<std::string, Config>> studies;  // all are read before one starts
  for (const std::string& name : options.configs) {
    Config config = load_config(name, options.sets);
    print_unread_sizes(config);
    make_paths_absolute(config);
    const std::string stem = std::filesystem::path(name).stem().string();
    if (!options.out.empty())
      config.run.out = options.configs.size() > 1 ? options.out + "/" + stem : options.out;
    if (config.run.out.empty()) config.run.out = "runs/" + stem;
    for (const auto& [dir, other] : studies)
      CBWC_CHECK(dir != config.run.out, name, " and another of the configs would both write to ",
                 dir, "; expected configs of different names");
    studies.emplace_back(config.run.out, config);
  }
  const bool one = studies.size() == 1;
  const std::string overview = options.out.empty() ? "runs/overview" : options.out;
  CBWC_CHECK(one || !std::filesystem::exists(overview + "/config.toml"), overview,
             ": holds a run or a comparison, nothing was changed; give another --out");
  for (const auto& [dir, config] : studies) check_can_make(dir);
  if (!one) check_can_make(overview);
  check_command_json(context, one ? studies[0].first : overview);
  for (const auto& [dir, config] : studies) check_study(config);
  int exit_code = 0;
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [dir, config] : studies) {
    const Comparison comparison =
        run_comparison(config, dir, context.global.quiet,
                       one ? "" : std::filesystem::path(dir).filename().string());
    fmt::print("{}", comparison_table(config, comparison));
    fmt::print("{}\n", write_report(dir, comparison.notes));
    all.push_back(comparison_json(config, comparison));
    if (!one) all.back()["config"] = config_json(config);
    if (comparison.diverged) exit_code = 1;
  }
  if (!one) {
    std::vector<std::string> dirs;
    for (const auto& [dir, config] : studies) dirs.push_back(dir);
    for (const std::string& file : write_overview(dirs, overview)) fmt::print("{}\n", file);
    fmt::print("\n{}", overview_text(read_overview(dirs)));
  }
  write_command_json(context, "compare", config_json(studies[0].second),
                     one ? all[0] : nlohmann::json{{"comparisons", all}});
  return exit_code;
}

}  // namespace

void add_compare_command(CommandLine app, CommandContext& context) {
  auto o = std::make_shared<Options>();
  CommandLine command = app.add_subcommand("compare", "every arm x every seed: table and report");
  command.add_option("configs", o->configs, "config files or names of shipped ones")
      .type_name("CONFIG")
      .required();
  add_set_option(command, o->sets);
  command.add_option("--out", o->out, "directory, new or of this very comparison").type_name("DIR");
  command.callback([o, &context] { context.exit_code = run(*o, context); });
}

}  // namespace cbwc
