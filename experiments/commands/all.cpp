// The list of commands, in the order of `cbwc --help`.
#include "experiments/command.h"

namespace cbwc {

void add_commands(CommandLine app, CommandContext& context) {
  add_data_command(app, context);
  add_train_command(app, context);
  add_compare_command(app, context);
  add_equiv_command(app, context);
  add_detect_command(app, context);
  add_fold_command(app, context);
  add_import_command(app, context);
  add_export_command(app, context);
  add_eval_command(app, context);
  add_generate_command(app, context);
  add_embed_command(app, context);
  add_bench_command(app, context);
  add_report_command(app, context);
  add_config_command(app, context);
  add_info_command(app, context);
}

}  // namespace cbwc
