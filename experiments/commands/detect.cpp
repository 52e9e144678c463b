// cbwc detect MODEL [--train] [--dot FILE]
#include "experiments/detect.h"

#include <fmt/format.h>

#include <filesystem>

#include "autograd/analysis/graph_dot.h"
#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/model_graph.h"
#include "experiments/model_setup.h"
#include "experiments/out_path.h"

namespace cbwc {
namespace {

struct Options {
  std::string model, dot;
  std::vector<std::string> sets;
  bool train = false;
};

// A config that leaves the arm to the default is looked at in its LayerNorm arm: that is the one
// to fold.
bool arm_is_open(const Options& options) {
  namespace fs = std::filesystem;
  if (fs::is_directory(options.model) || fs::path(options.model).extension() == ".h5") return false;
  return load_config(options.model, options.sets).where.count("model.norm") == 0;
}

int run(const Options& options, const CommandContext& context) {
  require_cpu(context.global.device);
  if (!options.dot.empty()) check_can_write(options.dot, kDrawing);
  std::vector<std::string> sets = options.sets;
  if (arm_is_open(options)) sets.push_back("model.norm=layernorm");
  const LoadedModel loaded = load_model(options.model, sets);
  if (loaded.folder.empty()) print_unread_sizes(loaded.config);
  for (const std::string& warning : loaded.warnings)
    fmt::print(stderr, "warning: skipped {}\n", warning);
  if (options.train)
    for (const std::string& note : loaded.notes) fmt::print(stderr, "warning: {}\n", note);
  const DetectReport report = run_detect(*loaded.model, options.train);
  if (!options.dot.empty()) write_text_file(options.dot, to_dot(report.graph, report.detection));
  fmt::print("{}", detect_table(report));
  write_command_json(context, "detect", config_json(loaded.config), detect_json(report));
  return 0;
}

}  // namespace

void add_detect_command(CommandLine app, CommandContext& context) {
  auto o = std::make_shared<Options>();
  CommandLine command =
      app.add_subcommand("detect", "which LayerNorms may become RMSNorms, and what to centre");
  command.add_option("model", o->model, "a config, a run folder, or a folder of checkpoints")
      .type_name("MODEL")
      .required();
  add_set_option(command, o->sets);
  command.add_flag("--train", o->train, "as in training, with dropout (default: evaluation)");
  command.add_option("--dot", o->dot, "draw the zero-mean graph for Graphviz (dot -Tsvg)")
      .type_name("FILE");
  command.callback([o, &context] { context.exit_code = run(*o, context); });
}

}  // namespace cbwc
