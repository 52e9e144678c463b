// cbwc report DIR: the HTML report again from a run directory, or an overview of comparisons.
#include "experiments/report.h"

#include <fmt/format.h>

#include "experiments/command.h"
#include "experiments/overview.h"

namespace cbwc {

void add_report_command(CommandLine app, CommandContext& context) {
  auto dir = std::make_shared<std::string>();
  CommandLine command = app.add_subcommand(
      "report", "write the HTML report of a run directory, or an overview, again");
  command.add_option("dir", *dir, "directory of a run, a comparison or an overview")
      .type_name("DIR")
      .required();
  command.callback([dir, &context] {
    std::vector<std::string> paths;
    if (holds_overview(*dir))
      paths = write_overview_again(*dir);
    else
      paths = {write_report(*dir)};
    for (const std::string& path : paths) fmt::print("{}\n", path);
    write_command_json(context, "report", nlohmann::json::object(), {{"report", paths[0]}});
  });
}

}  // namespace cbwc
