#include "experiments/missing_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "core/check.h"
#include "experiments/command.h"

namespace cbwc {
namespace fs = std::filesystem;

void make_missing_data(const Config& config) {
  const std::string &file = config.data.file, &build = config.data.build;
  if (file.empty() || build.empty() || fs::exists(file)) return;
  std::istringstream text(build);
  std::vector<std::string> words = {"data"};
  for (std::string word; text >> word;) words.push_back(word);
  words.insert(words.end(), {"--out", file});
  fmt::print(stderr, "{} is missing; making it: cbwc {}\n", file,
             fmt::format("{}", fmt::join(words, " ")));
  if (const fs::path folder = fs::path(file).parent_path(); !folder.empty())
    fs::create_directories(folder);
  CLI::App app;
  CommandContext context;
  add_data_command(app, context);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    detail::fail("data.build \"", build, "\": ", e.what());
  }
}

}  // namespace cbwc
