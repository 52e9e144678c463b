#include "experiments/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "data/atomic_file.h"
#include "data/text.h"
#include "experiments/json_output.h"
#include "experiments/out_path.h"

namespace cbwc {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTables[] = {"metrics.csv", "norm_stats.csv", "attention.csv",
                                   "grad_depth.csv"};

std::vector<fs::path> checkpoint_files(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().extension() == ".h5") files.push_back(entry.path());
  std::sort(files.begin(), files.end());  // the names have as many digits
  return files;
}

}  // namespace

RunLock::RunLock(const std::string& dir)
    : descriptor_(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  // Some network file systems cannot lock: there it stays the user's care.
  if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return;
  ::close(descriptor_);
  detail::fail(dir, ": another process trains in it; nothing was changed");
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool RunDirectory::holds_run(const std::string& dir) {
  return fs::exists(dir + "/config.toml") || fs::exists(dir + "/result.json") ||
         !checkpoint_files(dir + "/checkpoints").empty();
}

RunDirectory RunDirectory::create(const std::string& dir, const Config& config) {
  CBWC_CHECK(!dir.empty(), "no output directory: give --out DIR or run.out in the config");
  CBWC_CHECK(!fs::exists(dir) || fs::is_directory(dir), dir, ": is not a directory");
  CBWC_CHECK(!holds_run(dir), dir,
             ": holds another run, nothing was changed; give another --out, or --resume ", dir);
  const std::string toml = config_to_toml(config);
  make_folders(dir + "/checkpoints");
  write_text_file(dir + "/config.toml", toml);
  return RunDirectory(dir, config);
}

RunDirectory RunDirectory::open(const std::string& dir) {
  const std::string file = dir + "/config.toml";
  CBWC_CHECK(fs::exists(file), dir, ": is not a run directory (no config.toml)");
  return RunDirectory(dir, parse_config(read_file(file), file));
}

void RunDirectory::replace_config(const Config& config) {
  write_text_file(file("config.toml"), config_to_toml(config));
  config_ = config;
}

std::string RunDirectory::save_checkpoint(int64_t step, const Checkpoint& checkpoint,
                                          int64_t keep) const {
  const std::string folder = file("checkpoints");
  const std::string path = fmt::format("{}/step_{:010}.h5", folder, step);
  write_checkpoint(path, checkpoint);
  const std::vector<fs::path> files = checkpoint_files(folder);
  const int64_t extra = static_cast<int64_t>(files.size()) - std::max<int64_t>(keep, 1);
  for (int64_t i = 0; i < extra; ++i) fs::remove(files[static_cast<size_t>(i)]);
  return path;
}

std::string RunDirectory::newest(std::vector<std::string>& warnings) const {
  remove_dead_temporaries(file("checkpoints"));
  const size_t before = warnings.size();
  const std::string path = newest_checkpoint(file("checkpoints"), &warnings);
  CBWC_CHECK(!path.empty() || warnings.size() == before, file("checkpoints"),
             ": every checkpoint is damaged; the newest: ", warnings[before]);
  return path;
}

void RunDirectory::cut_tables(int64_t step) const {
  for (const char* name : kTables) {
    if (!fs::exists(file(name))) continue;
    const std::string text = read_file(file(name));
    std::string kept;
    bool header = true;
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      const std::string line = text.substr(begin, end - begin + 1);
      if (header || std::atoll(line.c_str()) <= step) kept += line;
      header = false;
    }
    if (kept != text) write_text_file(file(name), kept);
  }
}

CsvWriter::CsvWriter(const std::string& path, const std::string& header)
    : path_(path), file_(std::fopen(path.c_str(), "ab"), &std::fclose) {
  if (!file_) throw RunError(path + ": cannot be written");
  std::fseek(file_.get(), 0, SEEK_END);
  if (std::ftell(file_.get()) == 0) row({header});
}

void CsvWriter::row(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) line += (line.empty() ? "" : ",") + field;
  line += '\n';
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() ||
      std::fflush(file_.get()) != 0)
    throw RunError(path_ + ": cannot be written (disk full?)");
}

std::string csv_number(double value) {
  if (std::isnan(value)) return "nan";
  return fmt::format("{:.9g}", value);
}

nlohmann::json result_object(const std::string& command, const Config& config,
                             const nlohmann::json& results) {
  return {{"command", command},
          {"version", CBWC_VERSION},
          {"machine", machine_json(Device::cpu)},
          {"config", config_json(config)},
          {"results", results}};
}

}  // namespace cbwc
