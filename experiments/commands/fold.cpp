// cbwc fold MODEL --out DIR: LayerNorm to RMSNorm, exactly.
#include "experiments/fold.h"

#include <fmt/format.h>

#include "experiments/command.h"
#include "experiments/hf_layout.h"
#include "experiments/json_output.h"

namespace cbwc {
namespace {

struct Options {
  FoldRequest request;
  std::string tied = "rank_one", dtype;
};

int run(Options options, const CommandContext& context) {
  options.request.options.tied = parse_head_tie(options.tied);
  for (const StoredType type :
       {StoredType::f64, StoredType::f32, StoredType::f16, StoredType::bf16})
    if (options.dtype == torch_name(type)) options.request.type = type;
  const FoldReport report = run_fold(options.request);
  if (report.checkpoint.empty()) print_unread_sizes(report.source);
  if (!context.global.quiet || report.failed) fmt::print("{}", fold_text(report));
  write_command_json(context, "fold", config_json(report.source), fold_json(report));
  if (report.failed)
    throw RunError("fold: the folded model is not equal to " + report.model +
                   " up to rounding; nothing was written");
  return 0;
}

}  // namespace

void add_fold_command(CommandLine app, CommandContext& context) {
  auto o = std::make_shared<Options>();
  CommandLine command = app.add_subcommand(
      "fold",
      "turn foldable LayerNorms into RMSNorms, exactly; verified before anything is written");
  command
      .add_option("model", o->request.model,
                  "run directory, folder of checkpoints, checkpoint, config (fresh weights), or "
                  "Hugging Face folder")
      .type_name("MODEL")
      .required();
  add_set_option(command, o->request.sets);
  command.add_option("--out", o->request.out, "new folder, like a run's or in Hugging Face's form")
      .type_name("DIR")
      .required();
  command
      .add_option("--tied", o->tied,
                  "a head that shares the embedding: rank_one (keep the tie, correct the logits), "
                  "untie, or runtime (centre the embedding's output) (default rank_one)")
      .check(one_of({"rank_one", "untie", "runtime"}));
  command.add_flag("--auxiliary-centring", o->request.options.auxiliary_centring,
                   "also fold norms that need a centring inserted, at its price");
  command.add_flag("--carry-mean", o->request.carry_mean,
                   "also fold norms whose stream has readers that need the mean: it is carried to "
                   "them in one more channel");
  command.add_flag("--affine", o->request.affine,
                   "also fold gains and biases into the Linears that read them");
  command
      .add_option("--text", o->request.text,
                  "of a Hugging Face folder: the text to verify on (default: WordNet's glosses)")
      .type_name("FILE");
  command
      .add_option("--images", o->request.images,
                  "of a Hugging Face folder: the image file to verify on (default: "
                  "Fashion-MNIST)")
      .type_name("FILE");
  command
      .add_option("--dtype", o->dtype,
                  "of a Hugging Face folder: type of the weights written (default: as read)")
      .check(one_of({"float64", "float32", "float16", "bfloat16"}));
  command
      .add_option("--allow", o->request.allowed,
                  "of a Hugging Face folder: an entry of config.json to pass over, as in import "
                  "(repeatable)")
      .type_name("NAME")
      .one_value_each();
  command.callback([o, &context] { context.exit_code = run(*o, context); });
}

}  // namespace cbwc
