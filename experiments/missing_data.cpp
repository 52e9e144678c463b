#include "experiments/missing_data.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "core/check.h"
#include "experiments/command.h"

namespace cbwc {
namespace fs = std::filesystem;

namespace {

void make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  CBWC_CHECK(!failed, "data.file: the folder ", folder.string(),
             " cannot be made: ", failed.message());
}

}  // namespace

void make_missing_data(const Config& config) {
  const std::string &file = config.data.file, &build = config.data.build;
  if (file.empty() || build.empty() || fs::exists(file)) return;
  std::vector<std::string> words = {"data"};
  for (std::string& word : CLI::detail::split_up(build))  // at spaces, but not within quotes
    if (!word.empty()) words.push_back(std::move(word));
  words.insert(words.end(), {"--out", file});
  fmt::print(stderr, "{} is missing; making it: cbwc {}\n", file,
             fmt::format("{}", fmt::join(words, " ")));
  if (const fs::path folder = fs::path(file).parent_path(); !folder.empty()) make_folder(folder);
  CLI::App app;
  CommandContext context;
  add_data_command(CommandLine(app), context);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {  // falls through: no file was made
  } catch (const CLI::ParseError& e) {
    detail::fail("data.build \"", build, "\": ", e.what());
  }
  CBWC_CHECK(fs::exists(file), "data.build \"", build, "\" made no file; expected the words that ",
             "`cbwc data` takes, without --out");
}

}  // namespace cbwc
