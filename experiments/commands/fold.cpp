// cbwc fold MODEL --out DIR: LayerNorm to RMSNorm, exactly.
#include "experiments/fold.h"

#include <fmt/format.h>

#include "experiments/command.h"
#include "experiments/json_output.h"

namespace cbwc {
namespace {

struct Options {
  FoldRequest request;
  std::string tied = "rank_one";
};

int run(Options options, const CommandContext& context) {
  options.request.options.tied = parse_head_tie(options.tied);
  const FoldReport report = run_fold(options.request);
  if (!context.global.quiet || report.failed) fmt::print("{}", fold_text(report));
  write_command_json(context, "fold", config_json(report.source), fold_json(report));
  if (report.failed)
    throw RunError("fold: the folded model is not equal to " + report.model +
                   " up to rounding; nothing was written");
  return 0;
}

}  // namespace

void add_fold_command(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "fold",
      "turn foldable LayerNorms into RMSNorms, exactly; verified before anything is written");
  command
      ->add_option("model", o->request.model,
                   "run directory, folder of checkpoints, checkpoint, or config (fresh weights)")
      ->type_name("MODEL")
      ->required();
  add_set_option(*command, o->request.sets);
  command->add_option("--out", o->request.out, "new folder, like a run's")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--tied", o->tied,
                   "a head that shares the embedding: rank_one (keep the tie, correct the logits), "
                   "untie, or runtime (centre the embedding's output) (default rank_one)")
      ->check(CLI::IsMember({"rank_one", "untie", "runtime"}));
  command->add_flag("--auxiliary-centring", o->request.options.auxiliary_centring,
                    "also fold norms that need a centring inserted, at its price");
  command->add_flag("--carry-mean", o->request.carry_mean,
                    "also fold norms whose stream has readers that need the mean: it is carried to "
                    "them in one more channel");
  command->add_flag("--affine", o->request.affine,
                    "also fold gains and biases into the Linears that read them");
  command->callback([o, &context] { context.exit_code = run(*o, context); });
}

}  // namespace cbwc
