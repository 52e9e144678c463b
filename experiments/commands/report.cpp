// cbwc report DIR: the HTML report again from a run directory.
#include "experiments/report.h"

#include <fmt/format.h>

#include "experiments/command.h"

namespace cbwc {

void add_report_command(CLI::App& app, CommandContext& context) {
  auto dir = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("report", "write the HTML report of a run directory again");
  command->add_option("dir", *dir, "directory of a run or a comparison")
      ->type_name("DIR")
      ->required();
  command->callback([dir, &context] {
    const std::string path = write_report(*dir);
    fmt::print("{}\n", path);
    write_command_json(context, "report", nlohmann::json::object(), {{"report", path}});
  });
}

}  // namespace cbwc
