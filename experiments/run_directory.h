// The folder of one run: config.toml (complete), metrics.csv and other tables, checkpoints/,
// result.json. Everything but the tables appears whole or not at all; the tables are cut back to
// the checkpoint's step when a run is resumed.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "data/checkpoint.h"
#include "data/json.h"
#include "experiments/config.h"

namespace cbwc {

// Held by the process that trains in a run directory, so that no other one does; released when that
// process ends, however it ends. Error when another one holds it.
class RunLock {
 public:
  explicit RunLock(const std::string& dir);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

class RunDirectory {
 public:
  // For a new run. Error, with nothing changed, when `dir` holds another one or other files.
  static RunDirectory create(const std::string& dir, const Config& config);
  static RunDirectory open(const std::string& dir);  // Error when there is no run in it
  static bool holds_run(const std::string& dir);

  const std::string& path() const { return path_; }
  const Config& config() const { return config_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  void replace_config(const Config& config);

  // Keeps the newest `keep`; returns the path.
  std::string save_checkpoint(int64_t step, const Checkpoint& checkpoint, int64_t keep) const;
  // The newest valid one, or "" when there is none at all; damaged ones are added to `warnings`.
  // Error when there are only damaged ones.
  std::string newest(std::vector<std::string>& warnings) const;
  void cut_tables(int64_t step) const;  // keeps the rows up to this step

 private:
  RunDirectory(std::string path, Config config)
      : path_(std::move(path)), config_(std::move(config)) {}
  std::string path_;
  Config config_;
};

// Appends rows, each written through at once. A new file gets the header.
class CsvWriter {
 public:
  CsvWriter(const std::string& path, const std::string& header);
  void row(const std::vector<std::string>& fields);

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};
std::string csv_number(double value);  // 9 digits; "nan", "inf", "-inf"

// The object of cli.md for `--json` and result.json.
nlohmann::json result_object(const std::string& command, const Config& config,
                             const nlohmann::json& results);

}  // namespace cbwc
