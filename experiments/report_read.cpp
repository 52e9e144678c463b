// Reading run directories and making curves of their CSV files.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>

#include "core/check.h"
#include "data/text.h"
#include "experiments/json_output.h"
#include "experiments/report_run.h"
#include "experiments/statistics.h"

namespace cbwc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> split_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',')
      fields.emplace_back();
    else if (c != '\r' && c != '"')
      fields.back() += c;
  }
  return fields;
}

double parse_number(const std::string& text) {
  if (text.empty()) return std::numeric_limits<double>::quiet_NaN();
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return *end == '\0' ? value : std::numeric_limits<double>::quiet_NaN();
}

std::string text_of(const json& object, const char* key, const std::string& otherwise = "") {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : otherwise;
}

// Where a run of `compare` lies: the entry may say it; else runs/ARM[-VARIANT]-seedN.
std::string run_dir_of(const std::string& dir, const json& entry) {
  const std::string given = text_of(entry, "dir");
  if (!given.empty()) {
    for (const fs::path& path : {fs::path(dir) / given, fs::path(given)})
      if (fs::is_directory(path)) return path.string();
  }
  std::string name = text_of(entry, "arm");
  if (const std::string variant = text_of(entry, "variant"); !variant.empty())
    name += "-" + variant;
  if (entry.contains("seed")) name += "-seed" + entry["seed"].dump();
  const fs::path path = fs::path(dir) / "runs" / name;
  return fs::is_directory(path) ? path.string() : "";
}

Curve curve_of(const std::string& label, const std::map<double, std::vector<double>>& by_step) {
  Curve curve;
  curve.label = label;
  for (const auto& [step, values] : by_step) {
    curve.x.push_back(step);
    curve.y.push_back(mean_interval(values).mean);
    curve.low.push_back(*std::min_element(values.begin(), values.end()));
    curve.high.push_back(*std::max_element(values.begin(), values.end()));
  }
  return curve;
}

// NAN when it is not there.
double number_of(const json& entry, const std::string& key) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::string prefix = "metrics.";
  if (key.compare(0, prefix.size(), prefix) == 0) {
    const std::string name = key.substr(prefix.size());
    const auto all = entry.find("metrics");
    if (all != entry.end() && all->is_object() && all->contains(name))
      return number_from_json((*all)[name]);
    if (text_of(entry, "metric", "perplexity") != name) return kNan;
    if (entry.contains("metric_value")) return number_from_json(entry["metric_value"]);
    return std::exp(number_of(entry, "val_loss"));
  }
  const auto it = entry.find(key);
  return it == entry.end() ? kNan : number_from_json(*it);
}

bool diverged(const json& entry) {
  const auto it = entry.find("diverged_at");
  return it != entry.end() && it->is_number();
}

}  // namespace

std::vector<double> ReportArm::values(const std::string& key) const {
  std::vector<double> out;
  for (const json& entry : results)
    out.push_back(diverged(entry) ? std::numeric_limits<double>::quiet_NaN()
                                  : number_of(entry, key));
  return out;
}

bool ReportArm::has(const std::string& key) const {
  for (const json& entry : results)
    if (std::isfinite(number_of(entry, key))) return true;
  return false;
}

PairedDifference paired_by_seed(const ReportArm& a, const ReportArm& b, const std::string& key) {
  const std::vector<double> from = a.values(key), minus = b.values(key);
  std::vector<double> left, right;
  for (size_t i = 0; i < from.size(); ++i)
    for (size_t k = 0; k < minus.size(); ++k)
      if (a.results[i].value("seed", json()) == b.results[k].value("seed", json())) {
        left.push_back(from[i]);
        right.push_back(minus[k]);
      }
  return paired_difference(left, right);
}

std::string metric_of(const ReportArm& arm) {
  for (const json& entry : arm.results)
    if (const std::string name = text_of(entry, "metric"); !name.empty()) return name;
  return "perplexity";
}

CsvTable read_csv(const std::string& path) {
  const std::string all = read_file(path);
  CsvTable table;
  size_t begin = 0;
  for (size_t end; (end = all.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::vector<std::string> fields = split_fields(all.substr(begin, end - begin));
    if (table.header.empty()) {
      table.header = fields;
      continue;
    }
    if (fields.size() != table.header.size()) continue;
    for (size_t i = 0; i < fields.size(); ++i) {
      table.text[table.header[i]].push_back(fields[i]);
      table.numbers[table.header[i]].push_back(parse_number(fields[i]));
    }
    ++table.rows;
  }
  CBWC_CHECK(!table.header.empty() && table.header[0] == "step", path,
             ": no table of a run: its first line does not begin with step");
  return table;
}

ReportInput read_report_input(const std::string& dir) {
  CBWC_CHECK(fs::is_directory(dir), dir, ": no such directory");
  ReportInput input;
  input.dir = dir;
  input.title = fs::path(dir).lexically_normal().filename().string();
  if (fs::exists(fs::path(dir) / "result.json"))
    input.result = read_json((fs::path(dir) / "result.json").string());
  if (const json& config = input.result.is_object() && input.result.contains("config")
                               ? input.result["config"]
                               : json::object();
      config.is_object() && config.contains("run"))
    if (const std::string name = text_of(config["run"], "name"); !name.empty()) input.title = name;
  const json results =
      input.result.is_object() ? input.result.value("results", input.result) : json::object();
  input.comparison = results.contains("arms") && results["arms"].is_array();
  if (!input.comparison) {
    CBWC_CHECK(fs::exists(fs::path(dir) / "metrics.csv"), dir,
               ": neither a run (metrics.csv) nor a comparison (result.json with arms)");
    json entry = results;
    ReportArm arm{text_of(entry, "arm", "run"), {entry}, {dir}, text_of(entry, "arm", "run"), ""};
    input.arms.push_back(std::move(arm));
    return input;
  }
  for (const json& entry : results["arms"]) {
    std::string label = text_of(entry, "arm");
    const std::string variant = text_of(entry, "label", text_of(entry, "variant"));
    if (!variant.empty()) label += ", " + variant;
    auto it = std::find_if(input.arms.begin(), input.arms.end(),
                           [&](const ReportArm& arm) { return arm.label == label; });
    if (it == input.arms.end())
      it = input.arms.insert(it, ReportArm{label, {}, {}, text_of(entry, "arm"), variant});
    it->results.push_back(entry);
    it->run_dirs.push_back(run_dir_of(dir, entry));
  }
  return input;
}

std::vector<std::string> keys_of(const ReportArm& arm, const std::string& file,
                                 const std::string& key_column) {
  std::vector<std::string> keys;
  for (const std::string& run : arm.run_dirs) {
    const fs::path path = fs::path(run) / file;
    if (run.empty() || !fs::exists(path)) continue;
    const CsvTable table = read_csv(path.string());
    const auto it = table.text.find(key_column);
    if (it == table.text.end()) continue;
    std::set<std::string> seen(keys.begin(), keys.end());
    for (const std::string& key : it->second)
      if (seen.insert(key).second) keys.push_back(key);
  }
  return keys;
}

Curve mean_curve(const ReportArm& arm, const std::string& file, const std::string& column) {
  return mean_curve(arm, file, column, "", "");
}

Curve mean_curve(const ReportArm& arm, const std::string& file, const std::string& column,
                 const std::string& key_column, const std::string& key) {
  std::map<double, std::vector<double>> by_step;
  for (const std::string& run : arm.run_dirs) {
    const fs::path path = fs::path(run) / file;
    if (run.empty() || !fs::exists(path)) continue;
    const CsvTable table = read_csv(path.string());
    const auto steps = table.numbers.find("step"), values = table.numbers.find(column);
    if (steps == table.numbers.end() || values == table.numbers.end()) continue;
    for (size_t i = 0; i < table.rows; ++i) {
      if (!key_column.empty() && table.text.at(key_column)[i] != key) continue;
      if (std::isfinite(values->second[i]) && std::isfinite(steps->second[i]))
        by_step[steps->second[i]].push_back(values->second[i]);
    }
  }
  return curve_of(key.empty() ? arm.label : key, by_step);
}

Curve mean_curve_of(const ReportArm& arm, const std::string& key, double scale) {
  std::map<double, std::vector<double>> by_step;
  for (const json& entry : arm.results) {
    const auto points = entry.find(key);
    if (points == entry.end() || !points->is_array()) continue;
    for (const json& point : *points) {
      const double step = number_from_json(point.at(0)), value = number_from_json(point.at(1));
      if (std::isfinite(step) && std::isfinite(value)) by_step[step].push_back(scale * value);
    }
  }
  return curve_of(arm.label, by_step);
}

}  // namespace cbwc
