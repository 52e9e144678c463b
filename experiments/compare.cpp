#include "experiments/compare.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "experiments/json_output.h"
#include "experiments/metrics.h"
#include "experiments/model_graph.h"
#include "experiments/model_setup.h"
#include "experiments/overview.h"
#include "experiments/run_directory.h"
#include "experiments/statistics.h"
#include "experiments/trainer.h"

namespace cbwc {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The runs of one arm at one sweep point, in the order of the seeds.
struct Group {
  std::string variant, label, arm;
  std::vector<const CompareRun*> runs;

  std::vector<double> values(const std::function<double(const RunOutcome&)>& get,
                             bool finite_only) const {
    std::vector<double> out;
    for (const CompareRun* run : runs) {
      const double value = run->outcome.diverged_at < 0 ? get(run->outcome) : kNan;
      if (!finite_only || std::isfinite(value)) out.push_back(value);
    }
    return out;
  }
  MeanInterval interval(const std::function<double(const RunOutcome&)>& get) const {
    return mean_interval(values(get, true));
  }
};

double val_loss(const RunOutcome& o) { return o.val_loss; }
double metric_value(const RunOutcome& o) { return o.metric_value; }

// The arms, then the simple models of the same table.
std::vector<std::string> rows_of(const Config& config) {
  std::vector<std::string> rows = config.compare.arms;
  const auto& more = config.compare.baseline_models;
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

std::vector<Group> group(const Config& config, const Comparison& comparison) {
  std::vector<Group> groups;
  for (const Variant& variant : expand_sweep(config))
    for (const std::string& arm : rows_of(config)) {
      Group g{variant.name, variant.label, arm, {}};
      for (const CompareRun& run : comparison.runs)
        if (run.variant == variant.name && run.outcome.arm == arm) g.runs.push_back(&run);
      groups.push_back(std::move(g));
    }
  return groups;
}

void open_comparison(const Config& config, const std::string& dir) {
  const std::string file = dir + "/config.toml";
  CBWC_CHECK(!holds_overview(dir), dir,
             ": holds an overview of comparisons, nothing was changed; give another --out");
  if (!std::filesystem::exists(file)) {
    CBWC_CHECK(!RunDirectory::holds_run(dir), dir, ": holds another run, nothing was changed");
    RunDirectory::create(dir, config);
    return;
  }
  CBWC_CHECK(!std::filesystem::exists(dir + "/metrics.csv"), dir,
             ": holds another run (a single one), nothing was changed; give another --out");
  Config stored = RunDirectory::open(dir).config();
  stored.run.out = config.run.out;
  CBWC_CHECK(config_to_toml(stored) == config_to_toml(config), dir,
             ": holds another comparison (its config.toml differs), nothing was changed; give "
             "another --out");
}

CompareRun one_run(const Config& base, const Variant& variant, const std::string& arm, int64_t seed,
                   const std::string& dir, bool quiet, const std::string& title) {
  CompareRun run;
  run.variant = variant.name;
  run.label = variant.label;
  run.dir =
      fmt::format("runs/{}{}_seed{}", variant.name.empty() ? "" : variant.name + "_", arm, seed);
  RunRequest request;
  request.config = base;
  if (is_baseline(arm)) {
    request.config.model.family = arm;
    request.config.model.norm = "none";
    request.config.run.pretrain = request.config.run.init = "";
  } else {
    request.config.model.norm = arm;
  }
  request.config.run.seeds = {seed};
  request.config.run.out = "";
  request.config.compare = Config::Compare{};
  request.dir = dir + "/" + run.dir;
  request.resume = std::filesystem::exists(request.dir + "/config.toml");
  request.quiet = quiet;
  request.title = fmt::format("{}{}{} seed {}", title.empty() ? "" : title + ", ", arm,
                              variant.label.empty() ? "" : " (" + variant.label + ")", seed);
  run.outcome = train_run(request);
  return run;
}

void add_notes(const Config& config, const TrainingData& data, Comparison& comparison) {
  for (const Variant& variant : expand_sweep(config)) {
    Config c = apply_sets(config, variant.sets);
    const auto pairs = inexact_pairs(c, data.shape);
    std::string note = variant.label.empty() ? "" : variant.label + ": ";
    if (pairs.empty()) {
      note += "CBWC + RMSNorm is exactly LayerNorm in training and in evaluation.";
    } else {
      note += fmt::format(
          "CBWC + RMSNorm is not exactly LayerNorm, at {} producer(s), the first: "
          "{} before {} ({}).",
          pairs.size(), pairs[0].producer, pairs[0].norm, pairs[0].reason);
    }
    comparison.notes.push_back(note);
  }
  for (const CompareRun& run : comparison.runs)
    for (const std::string& note : outcome_notes(run.outcome))
      comparison.notes.push_back(run.dir + ": " + note);
}

nlohmann::json paired_json(const Config& config, const std::vector<Group>& groups) {
  const MetricInfo& info = metric_info(metric_of(config));
  nlohmann::json out = nlohmann::json::array();
  for (const Group& a : groups)
    for (const Group& b : groups) {
      if (b.arm != config.compare.baseline || a.arm == b.arm || a.variant != b.variant) continue;
      const PairedDifference d =
          paired_difference(a.values(val_loss, false), b.values(val_loss, false));
      const PairedDifference m =
          paired_difference(a.values(metric_value, false), b.values(metric_value, false));
      out.push_back({{"arm", a.arm},
                     {"against", b.arm},
                     {"variant", a.variant},
                     {"label", a.label},
                     {"n", d.difference.n},
                     {"mean_difference", json_number(d.difference.mean)},
                     {"ci95", json_number(d.difference.ci95)},
                     {"supported", d.supported},
                     {"verdict", verdict_of(d, false)},
                     {"metric_mean_difference", json_number(m.difference.mean)},
                     {"metric_ci95", json_number(m.difference.ci95)},
                     {"metric_verdict", verdict_of(m, info.higher_is_better)}});
    }
  return out;
}

std::string paired_line(const nlohmann::json& p, const MetricInfo& info) {
  const std::string label = p.at("label");
  const std::string arms =
      fmt::format("{}{} - {}: ", label.empty() ? "" : label + ": ", p.at("arm").get<std::string>(),
                  p.at("against").get<std::string>());
  if (p.at("n") == 0) return arms + p.at("verdict").get<std::string>() + "\n";
  const double ci = number_from_json(p.at("ci95"));
  std::string metric;
  if (!follows_loss(info.name)) {
    MeanInterval d;
    d.n = p.at("n");
    d.mean = number_from_json(p.at("metric_mean_difference")) * info.scale;
    d.ci95 = number_from_json(p.at("metric_ci95")) * info.scale;
    metric = fmt::format("; {} {}{}: {}", info.label, format_difference(d, info.digits),
                         info.unit.empty() ? "" : " " + info.unit,
                         p.at("metric_verdict").get<std::string>());
  }
  return fmt::format(
      "{}{:+.4f} ({}) val loss over {} paired seeds: {}{}\n", arms,
      number_from_json(p.at("mean_difference")),
      std::isnan(ci) ? std::string("no interval from one seed") : fmt::format("± {:.4f}", ci),
      p.at("n").get<int64_t>(), p.at("verdict").get<std::string>(), metric);
}

}  // namespace

Comparison run_comparison(const Config& config, const std::string& dir, bool quiet,
                          const std::string& title) {
  const TrainingData data = open_data(config);  // before anything is written
  open_comparison(config, dir);
  Comparison comparison;
  for (const Variant& variant : expand_sweep(config)) {
    const Config base = apply_sets(config, variant.sets);
    for (int64_t seed : config.run.seeds)
      for (const std::string& arm : rows_of(config)) {
        comparison.runs.push_back(one_run(base, variant, arm, seed, dir, quiet, title));
        comparison.diverged |= comparison.runs.back().outcome.diverged_at >= 0;
      }
  }
  add_notes(config, data, comparison);
  if (config.compare.sweep.empty())
    comparison.exactness = exactness_json(norm_exactness(config, data.shape));
  nlohmann::json result = result_object("compare", config, comparison_json(config, comparison));
  result["notes"] = comparison.notes;
  write_json(dir + "/result.json", result);
  return comparison;
}

nlohmann::json comparison_json(const Config& config, const Comparison& comparison) {
  nlohmann::json arms = nlohmann::json::array(), summary = nlohmann::json::array();
  for (const CompareRun& run : comparison.runs) {
    nlohmann::json row = outcome_json(run.outcome);
    row["variant"] = run.variant;
    row["label"] = run.label;
    row["dir"] = run.dir;
    arms.push_back(row);
  }
  const std::vector<Group> groups = group(config, comparison);
  for (const Group& g : groups) {
    const MeanInterval loss = g.interval(val_loss), metric = g.interval(metric_value);
    summary.push_back({{"arm", g.arm},
                       {"variant", g.variant},
                       {"label", g.label},
                       {"n", loss.n},
                       {"val_loss_mean", json_number(loss.mean)},
                       {"val_loss_ci95", json_number(loss.ci95)},
                       {"metric_mean", json_number(metric.mean)},
                       {"metric_ci95", json_number(metric.ci95)}});
  }
  return {{"arms", arms},
          {"summary", summary},
          {"paired", paired_json(config, groups)},
          {"exactness", comparison.exactness},
          {"notes", comparison.notes}};
}

std::string comparison_table(const Config& config, const Comparison& comparison) {
  const MetricInfo& info = metric_info(metric_of(config));
  std::string out = fmt::format("{:<44} {:>2} {:>18} {:>18} {:>10} {:>10} {:>9}\n", "arm", "n",
                                "val loss", info.label, "step ms", "targets/s", "peak MB");
  const std::vector<Group> groups = group(config, comparison);
  for (const Group& g : groups) {
    const auto middle = [&](double RunOutcome::*field) {
      return median(g.values([&](const RunOutcome& o) { return o.*field; }, true));
    };
    const MeanInterval loss = g.interval(val_loss);
    out += fmt::format("{:<44} {:>2} {:>18} {:>18} {:>10.1f} {:>10.0f} {:>9.0f}\n",
                       g.label.empty() ? g.arm : g.arm + " " + g.label, loss.n,
                       format_interval(loss, 4),
                       format_interval(scaled(g.interval(metric_value), info.scale), info.digits),
                       middle(&RunOutcome::step_ms_median), middle(&RunOutcome::tokens_per_s),
                       middle(&RunOutcome::peak_mb));
    for (const CompareRun* run : g.runs)
      if (run->outcome.diverged_at >= 0)
        out += fmt::format("    seed {}: diverged at step {}\n", run->outcome.seed,
                           run->outcome.diverged_at);
  }
  for (const auto& p : paired_json(config, groups)) out += paired_line(p, info);
  for (const std::string& note : comparison.notes) out += note + "\n";
  return out;
}

}  // namespace cbwc
