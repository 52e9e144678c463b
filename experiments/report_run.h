// What a report reads: the runs of a directory, grouped by arm and sweep point.
#pragma once
#include <string>
#include <vector>

#include "data/json.h"
#include "experiments/report.h"
#include "experiments/statistics.h"

namespace cbwc {

// One arm (at one sweep point) with its runs over seeds.
struct ReportArm {
  std::string label;                    // "cbwc_rmsnorm", "layernorm, placement post"
  std::vector<nlohmann::json> results;  // entries of result.json's `arms`, by seed
  std::vector<std::string> run_dirs;    // beside results; "" where the folder is gone
  std::string arm, variant;             // the parts of the label

  // One number of every run, nan for a run without it and for a diverged one. "metrics.NAME" is
  // looked up in `metrics`, then as the run's `metric`.
  std::vector<double> values(const std::string& key) const;
  bool has(const std::string& key) const;  // in any run, diverged or not
};

// The runs of both arms with the same seed, a's minus b's.
PairedDifference paired_by_seed(const ReportArm& a, const ReportArm& b, const std::string& key);
std::string metric_of(const ReportArm& arm);  // the runs' `metric`; "perplexity" when unnamed

struct ReportInput {
  std::string dir, title;
  bool comparison = false;
  nlohmann::json result;  // the whole result.json; null when there is none yet
  std::vector<ReportArm> arms;
};

ReportInput read_report_input(const std::string& dir);

// A curve over steps: mean over seeds and, with two seeds or more, the spread low..high.
struct Curve {
  std::string label;
  std::vector<double> x, y, low, high;
};
// One column of one CSV file over the runs of an arm; steps that any run lacks are kept with fewer.
Curve mean_curve(const ReportArm& arm, const std::string& file, const std::string& column);
// The same for a long table: rows where `key_column` is `key`.
Curve mean_curve(const ReportArm& arm, const std::string& file, const std::string& column,
                 const std::string& key_column, const std::string& key);
// From a list of [step, value] in the results: `val`, `val_metric`.
Curve mean_curve_of(const ReportArm& arm, const std::string& key, double scale = 1);
std::vector<std::string> keys_of(const ReportArm& arm, const std::string& file,
                                 const std::string& key_column);

// SVG text made by gnuplot; empty when gnuplot cannot be run or there is nothing to draw.
struct PlotOptions {
  std::string title, x_label, y_label;
  bool log_y = false;
  std::string y_range;  // gnuplot's, empty: from the data
};
std::string plot_svg(const std::vector<Curve>& curves, const PlotOptions& options);
bool have_gnuplot();
// A script that says everything but its output. The SVG text starts at its root element, every id
// in it with `ids` in front, as one page holds many plots; empty when gnuplot cannot run it.
std::string gnuplot_svg(const std::string& script, const std::string& ids);

}  // namespace cbwc
