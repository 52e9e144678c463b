// The list of commands, in the order of `cbwc --help`.
#include "experiments/command.h"

namespace cbwc {

void add_commands(CLI::App& app, CommandContext& context) {
  add_data_command(app, context);
  add_report_command(app, context);
  add_config_command(app, context);
  add_info_command(app, context);
}

}  // namespace cbwc
