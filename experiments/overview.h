// One overview of several finished comparisons: task x arm with the task's metric, the paired
// difference against the baseline arm and what the seeds say about it, and the time of a step.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "experiments/metrics.h"
#include "experiments/report_run.h"

namespace cbwc {

struct OverviewRow {
  std::string arm;
  bool reference = false;  // a simple baseline given by number alone (result.json's `references`)
  int64_t seeds = 0, diverged = 0;
  MeanInterval metric;  // this and what follows in the metric's own scale
  PairedDifference difference;
  std::string verdict;                              // "" for the baseline and for references
  double step_ms = 0, time_ratio = 0, peak_mb = 0;  // nan when unknown; over the baseline's
  std::vector<std::pair<MetricInfo, MeanInterval>> others;
};

// A comparison, or one sweep point of it.
struct OverviewTask {
  std::string title, baseline, exactness;  // in words; "" when nothing is known
  MetricInfo metric;
  std::vector<OverviewRow> rows;
  MetricInfo curve;  // of the curves: the metric, or the loss where that says the same
  std::vector<Curve> curves;
  nlohmann::json norms;  // result.json's `exactness`
};

// `dirs` hold a comparison's result.json each, or Error.
std::vector<OverviewTask> read_overview(const std::vector<std::string>& dirs);
std::string overview_text(const std::vector<OverviewTask>& tasks);
// plots: one a task, "" for none; file names beside the page.
std::string overview_markdown(const std::vector<OverviewTask>& tasks,
                              const std::vector<std::string>& plots);
std::string overview_html(const std::vector<OverviewTask>& tasks,
                          const std::vector<std::string>& svgs);

// Writes OUT/overview.txt, .md, .html and one plot-TASK.svg each (with gnuplot), in place of an
// overview that was there, and overview.json, which names `dirs`; returns the paths.
std::vector<std::string> write_overview(const std::vector<std::string>& dirs,
                                        const std::string& out_dir);
bool holds_overview(const std::string& dir);
std::vector<std::string> write_overview_again(const std::string& dir);  // of the same comparisons

}  // namespace cbwc
