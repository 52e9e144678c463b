#include "experiments/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/check.h"
#include "experiments/json_output.h"
#include "experiments/out_path.h"
#include "experiments/report_page.h"

namespace cbwc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kIndex = "overview.json";

MeanInterval interval_of(const ReportArm& arm, const MetricInfo& info) {
  std::vector<double> values;
  for (const double v : arm.values("metrics." + info.name))
    if (std::isfinite(v)) values.push_back(v);
  return scaled(mean_interval(values), info.scale);
}

double middle(const ReportArm& arm, const std::string& key) {
  std::vector<double> values;
  for (const double v : arm.values(key))
    if (std::isfinite(v)) values.push_back(v);
  return median(values);
}

OverviewRow row_of(const ReportArm& arm, const ReportArm* baseline, const MetricInfo& metric) {
  OverviewRow row;
  row.arm = arm.arm;
  row.seeds = static_cast<int64_t>(arm.results.size());
  for (const json& entry : arm.results) {
    const auto it = entry.find("diverged_at");
    row.diverged += it != entry.end() && it->is_number();
  }
  row.metric = interval_of(arm, metric);
  row.step_ms = middle(arm, "step_ms_median");
  row.peak_mb = middle(arm, "peak_mb");
  for (const MetricInfo& other : metric_table())
    if (other.name != metric.name && arm.has("metrics." + other.name))
      row.others.emplace_back(other, interval_of(arm, other));
  row.time_ratio = std::nan("");
  if (baseline == nullptr) return row;
  row.time_ratio = row.step_ms / middle(*baseline, "step_ms_median");
  if (baseline == &arm) return row;
  row.difference = paired_by_seed(arm, *baseline, "metrics." + metric.name);
  row.verdict = verdict_of(row.difference, metric.higher_is_better);
  row.difference.difference = scaled(row.difference.difference, metric.scale);
  return row;
}

OverviewTask task_of(const ReportInput& input, const std::string& variant) {
  OverviewTask task;
  task.title = input.title + (variant.empty() ? "" : ", " + variant);
  const json config = input.result.value("config", json::object());
  task.baseline = config.value("compare", json::object()).value("baseline", "layernorm");
  task.norms = exactness_of(input.result);
  task.exactness = exactness_words(task.norms);
  std::vector<const ReportArm*> arms;
  const ReportArm* baseline = nullptr;
  for (const ReportArm& arm : input.arms) {
    if (arm.variant != variant) continue;
    arms.push_back(&arm);
    if (arm.arm == task.baseline) baseline = &arm;
  }
  task.metric = metric_info(metric_of(*arms[0]));
  // Some metrics (BLEU) are measured once, at the end: then the loss is what there is to draw.
  const bool drawn = std::any_of(arms.begin(), arms.end(), [](const ReportArm* arm) {
    return !mean_curve_of(*arm, "val_metric", 1).y.empty();
  });
  const bool loss = follows_loss(task.metric.name) || !drawn;
  task.curve = loss ? metric_info("loss") : task.metric;
  for (const ReportArm* arm : arms) {
    CBWC_CHECK(metric_of(*arm) == task.metric.name, input.dir, ": arm ", arm->arm, " reports ",
               metric_of(*arm), ", the first one ", task.metric.name);
    task.rows.push_back(row_of(*arm, baseline, task.metric));
    Curve curve = mean_curve_of(*arm, loss ? "val" : "val_metric", task.curve.scale);
    curve.label = arm->arm;
    task.curves.push_back(std::move(curve));
  }
  const json results = input.result.value("results", input.result);
  for (const json& reference : results.value("references", json::array())) {
    if (reference.value("metric", "") != task.metric.name) continue;
    OverviewRow row;
    row.arm = reference.value("name", "reference");
    row.reference = true;
    row.metric.n = 1;
    row.metric.mean = number_from_json(reference.at("value")) * task.metric.scale;
    row.metric.ci95 = row.step_ms = row.time_ratio = row.peak_mb = std::nan("");
    task.rows.push_back(row);
  }
  return task;
}

// A name for a file: letters, digits and dashes, each file its own.
std::string slug(const std::string& title, std::set<std::string>& used) {
  std::string out;
  for (const char c : title) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain)
      out += c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  if (out.empty()) out = "task";
  for (int i = 2; !used.insert(out).second; ++i) out = fmt::format("{}-{}", out, i);
  return out;
}

// Those of an overview that is written anew: its tasks may have had other names.
void remove_plots(const std::string& dir) {
  if (!holds_overview(dir)) return;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("plot-") && name.ends_with(".svg")) fs::remove(entry.path());
  }
}

}  // namespace

std::vector<OverviewTask> read_overview(const std::vector<std::string>& dirs) {
  CBWC_CHECK(!dirs.empty(), "overview: expected at least one comparison's directory");
  std::vector<OverviewTask> tasks;
  for (const std::string& dir : dirs) {
    const ReportInput input = read_report_input(dir);
    CBWC_CHECK(input.comparison && !input.arms.empty(), dir,
               ": not a finished comparison (its result.json has no arms)");
    std::vector<std::string> variants;
    for (const ReportArm& arm : input.arms)
      if (std::find(variants.begin(), variants.end(), arm.variant) == variants.end())
        variants.push_back(arm.variant);
    for (const std::string& variant : variants) tasks.push_back(task_of(input, variant));
  }
  return tasks;
}

std::vector<std::string> write_overview(const std::vector<std::string>& dirs,
                                        const std::string& out_dir) {
  const std::vector<OverviewTask> tasks = read_overview(dirs);
  remove_plots(out_dir);
  make_folders(out_dir);
  std::vector<std::string> paths, svgs, files;
  const auto write = [&](const std::string& name, const std::string& text) {
    paths.push_back((fs::path(out_dir) / name).string());
    write_text_file(paths.back(), text);
  };
  std::set<std::string> used;
  const bool plots = have_gnuplot();
  for (const OverviewTask& task : tasks) {
    const std::string axis =
        task.curve.unit.empty() ? task.curve.label : task.curve.label + ", " + task.curve.unit;
    svgs.push_back(plots ? plot_svg(task.curves, {task.title, "step", axis, false, ""}) : "");
    files.push_back(svgs.back().empty() ? "" : "plot-" + slug(task.title, used) + ".svg");
  }
  write("overview.txt", overview_text(tasks));
  write("overview.md", overview_markdown(tasks, files));
  write("overview.html", overview_html(tasks, svgs));
  for (size_t i = 0; i < files.size(); ++i)
    if (!files[i].empty()) write(files[i], svgs[i]);
  json places = json::array();  // the folder may be moved with what is in it
  for (const std::string& dir : dirs)
    places.push_back(fs::relative(fs::absolute(dir), fs::absolute(out_dir)).string());
  write_json((fs::path(out_dir) / kIndex).string(), {{"comparisons", places}});
  return paths;
}

bool holds_overview(const std::string& dir) { return fs::exists(fs::path(dir) / kIndex); }

std::vector<std::string> write_overview_again(const std::string& dir) {
  std::vector<std::string> dirs;
  const json index = read_json((fs::path(dir) / kIndex).string());
  for (const json& place : index.at("comparisons"))
    dirs.push_back((fs::path(dir) / place.get<std::string>()).lexically_normal().string());
  return write_overview(dirs, dir);
}

}  // namespace cbwc
