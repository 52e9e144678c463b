// cbwc equiv CONFIG [--steps N] [--placements P...] [--dump FILE.h5]
#include "experiments/equiv.h"

#include <fmt/format.h>

#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/out_path.h"
#include "layers/dropout.h"

namespace cbwc {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> sets;
  EquivOptions equiv;
};

int run(const Options& options, const CommandContext& context) {
  require_cpu(context.global.device);
  if (!options.equiv.dump.empty()) check_can_write(options.equiv.dump, kDataFile);
  for (const std::string& placement : options.equiv.placements) parse_dropout_placement(placement);
  const Config config = load_config(options.config, options.sets);
  print_unread_sizes(config);
  const EquivReport report = run_equiv(config, options.equiv);
  fmt::print("{}", equiv_table(report));
  write_command_json(context, "equiv", config_json(config), equiv_json(report));
  return report.failed ? 1 : 0;
}

}  // namespace

void add_equiv_command(CommandLine app, CommandContext& context) {
  auto o = std::make_shared<Options>();
  CommandLine command =
      app.add_subcommand("equiv", "is CBWC + RMSNorm the same function and training as LayerNorm?");
  add_config_options(command, o->config, o->sets);
  command.add_option("--steps", o->equiv.steps, "AdamW steps (default: equiv.steps)")
      .check(at_least(0));
  command.add_option("--placements", o->equiv.placements,
                     "also these dropout placements, with the config's dropout");
  command
      .add_option("--dump", o->equiv.dump,
                  "write inputs, weights, outputs and gradients of both models (float64, "
                  "dropout 0)")
      .type_name("FILE.h5");
  command.callback([o, &context] { context.exit_code = run(*o, context); });
}

}  // namespace cbwc
