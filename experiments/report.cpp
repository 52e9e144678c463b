#include "experiments/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/text.h"
#include "experiments/json_output.h"
#include "experiments/metrics.h"
#include "experiments/report_page.h"
#include "experiments/report_run.h"
#include "experiments/statistics.h"

namespace cbwc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

double field(const json& entry, const char* key) {
  const auto it = entry.find(key);
  return it == entry.end() ? std::numeric_limits<double>::quiet_NaN() : number_from_json(*it);
}

std::vector<double> finite_values(const ReportArm& arm, const std::string& key) {
  std::vector<double> values;
  for (const double v : arm.values(key))
    if (std::isfinite(v)) values.push_back(v);
  return values;
}

std::string one_number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "n/a";
}

const json results_of(const ReportInput& input) {
  if (!input.result.is_object()) return json::object();
  return input.result.value("results", input.result);
}

std::string diverged(const ReportArm& arm) {
  std::vector<std::string> parts;
  for (const json& entry : arm.results) {
    const auto it = entry.find("diverged_at");
    if (it != entry.end() && it->is_number())
      parts.push_back(fmt::format("seed {} at step {}",
                                  entry.contains("seed") ? entry["seed"].dump() : "?",
                                  it->get<int64_t>()));
  }
  if (parts.empty()) return "no";
  return fmt::format("<span class=\"bad\">{}</span>", fmt::join(parts, ", "));
}

// What the model and its input measure, in the family's own terms.
std::string size_words(const json& m) {
  const std::string family = m.value("family", "model");
  if (family == "swin")
    return fmt::format("depths {}, width {}, heads {}, window {}, images of {}",
                       m.value("depths", json::array()).dump(), m.value("dim", 0),
                       m.value("stage_heads", json::array()).dump(), m.value("window", 0),
                       m.value("image", 0));
  std::string out = fmt::format("{} layers, width {}, {} heads, ", m.value("layers", 0),
                                m.value("dim", 0), m.value("heads", 0));
  if (family == "vit")
    return out +
           fmt::format("images of {} in patches of {}", m.value("image", 0), m.value("patch", 0));
  return out + fmt::format("context {}", m.value("context", 0));
}

std::string head(const ReportInput& input) {
  std::string out = fmt::format("<h1>{}</h1>\n", escape_html(input.title));
  const json config =
      input.result.is_object() ? input.result.value("config", json::object()) : json::object();
  if (config.contains("model") && config.contains("run")) {
    const json &m = config["model"], &r = config["run"];
    const json data = config.value("data", json::object());
    out += fmt::format(
        "<p>{} with {}; {} steps of batch {}; dropout {} ({}); {} arm(s), seeds {}.</p>\n",
        escape_html(m.value("family", "model")), escape_html(size_words(m)), r.value("steps", 0),
        data.value("batch", 0), m.value("dropout", 0.0),
        escape_html(m.value("dropout_placement", "")), input.arms.size(),
        r.contains("seeds") ? escape_html(r["seeds"].dump()) : "?");
  }
  if (input.result.is_object() && input.result.contains("machine")) {
    const json& machine = input.result["machine"];
    std::vector<std::string> parts;
    for (const auto& [key, value] : machine.items())
      parts.push_back(key + ": " + (value.is_string() ? value.get<std::string>() : value.dump()));
    out += fmt::format("<p class=\"note\">Machine: {}.</p>\n",
                       escape_html(fmt::format("{}", fmt::join(parts, "; "))));
  }
  return out;
}

// The metrics that any run has, the task's own first.
std::vector<MetricInfo> metrics_of(const ReportInput& input) {
  std::vector<MetricInfo> out;
  for (const ReportArm& arm : input.arms) {
    const MetricInfo& info = metric_info(metric_of(arm));
    if (std::none_of(out.begin(), out.end(),
                     [&](const MetricInfo& m) { return m.name == info.name; }))
      out.push_back(info);
  }
  const size_t own = out.size();
  for (const MetricInfo& info : metric_table()) {
    bool wanted = info.name != "loss";  // it has a column
    for (size_t i = 0; i < own; ++i) wanted &= out[i].name != info.name;
    if (wanted && std::any_of(input.arms.begin(), input.arms.end(), [&](const ReportArm& arm) {
          return arm.has("metrics." + info.name);
        }))
      out.push_back(info);
  }
  return out;
}

std::string table(const ReportInput& input) {
  const std::vector<MetricInfo> metrics = metrics_of(input);
  std::string out =
      "<h2>Results</h2>\n<div class=\"scroll\"><table><tr><th>arm</th><th>seeds</th>"
      "<th>validation loss</th>";
  for (const MetricInfo& m : metrics)
    out += fmt::format("<th>{}{}</th>", m.label, m.unit.empty() ? "" : ", " + m.unit);
  out += "<th>ms per step</th><th>targets/s</th><th>peak MB</th><th>diverged</th></tr>\n";
  for (const ReportArm& arm : input.arms) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td>", escape_html(arm.label),
                       arm.results.size(),
                       format_interval(mean_interval(finite_values(arm, "val_loss")), 4));
    for (const MetricInfo& m : metrics) {
      std::vector<double> values = finite_values(arm, "metrics." + m.name);
      for (double& v : values) v *= m.scale;
      out += fmt::format("<td>{}</td>", format_interval(mean_interval(values), m.digits));
    }
    out += fmt::format("<td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                       one_number(median(finite_values(arm, "step_ms_median")), 1),
                       one_number(median(finite_values(arm, "tokens_per_s")), 0),
                       one_number(median(finite_values(arm, "peak_mb")), 0), diverged(arm));
  }
  return out +
         "</table></div>\n<p class=\"note\">Mean ± half-width of the 95 % t interval over seeds; "
         "n/a with one seed. Diverged runs are left out. Time, speed (targets: what the loss "
         "counts, tokens or images) and memory: the median over seeds.</p>\n";
}

// The same for the task's metric, where it says more than the loss.
std::string paired_metric(const ReportInput& input, const json& pair) {
  const ReportArm *a = nullptr, *b = nullptr;
  const std::string variant = pair.value("label", pair.value("variant", ""));
  for (const ReportArm& arm : input.arms) {
    if (arm.variant != variant) continue;
    if (arm.arm == pair.value("arm", "")) a = &arm;
    if (arm.arm == pair.value("against", "")) b = &arm;
  }
  if (a == nullptr || b == nullptr || follows_loss(metric_of(*a))) return "";
  const MetricInfo info = metric_info(metric_of(*a));
  PairedDifference d = paired_by_seed(*a, *b, "metrics." + info.name);
  const std::string verdict = verdict_of(d, info.higher_is_better);
  for (double* v : {&d.difference.mean, &d.difference.ci95}) *v *= info.scale;
  return fmt::format("; {}{} {}: {}", info.label, info.unit.empty() ? "" : ", " + info.unit,
                     format_difference(d.difference, info.digits), verdict);
}

std::string paired(const ReportInput& input) {
  const json results = results_of(input);
  if (!results.contains("paired") || results["paired"].empty()) return "";
  std::string out = "<h2>Paired differences</h2>\n<ul>\n";
  for (const json& pair : results["paired"]) {
    const double mean = field(pair, "mean_difference"), ci = field(pair, "ci95");
    const std::string arm = pair.value("arm", ""), against = pair.value("against", "");
    std::string variant = pair.value("label", pair.value("variant", ""));
    if (!variant.empty()) variant = " (" + variant + ")";
    PairedDifference d;
    d.difference = {pair.value("n", std::isfinite(mean) ? 2 : 0), mean, ci, ci};
    if (!std::isfinite(ci)) d.difference.n = std::isfinite(mean) ? 1 : 0;
    d.supported = pair.value("supported", false);
    out += fmt::format("<li>{} against {}{}: validation loss {} over {} seeds: <b>{}</b>{}.</li>\n",
                       escape_html(arm), escape_html(against), escape_html(variant),
                       format_difference(d.difference, 4), pair.value("n", 0), verdict_of(d, false),
                       paired_metric(input, pair));
  }
  return out +
         "</ul>\n<p class=\"note\">Runs with the same seed start from the same numbers and see the "
         "same batches, so their difference is taken seed by seed. Supported: the 95 % interval "
         "does not contain 0; each stands by itself, so one in twenty is supported by "
         "chance.</p>\n";
}

std::vector<Curve> curves_of(const ReportInput& input, const std::string& file,
                             const std::string& column) {
  std::vector<Curve> curves;
  for (const ReportArm& arm : input.arms) curves.push_back(mean_curve(arm, file, column));
  return curves;
}

// The task's metric, where it says more than the loss.
std::string metric_plot(const ReportInput& input) {
  const std::string name = input.arms.empty() ? "loss" : metric_of(input.arms[0]);
  if (follows_loss(name)) return "";
  const MetricInfo& info = metric_info(name);
  std::vector<Curve> curves;
  for (const ReportArm& arm : input.arms)
    curves.push_back(mean_curve_of(arm, "val_metric", info.scale));
  const std::string axis = info.unit.empty() ? info.label : info.label + ", " + info.unit;
  return plot_svg(curves, {"Validation: " + info.label, "step", axis, false, ""});
}

std::string loss_plots(const ReportInput& input) {
  const auto plot = [&](const char* column, const char* title, const char* axis) {
    return plot_svg(curves_of(input, "metrics.csv", column), {title, "step", axis, false, ""});
  };
  const std::string plots = metric_plot(input) + plot("val_loss", "Validation loss", "loss") +
                            plot("train_loss", "Training loss", "loss") +
                            plot("grad_norm", "Gradient norm before clipping", "norm");
  if (plots.empty()) return "";
  return "<h2>Over training</h2>\n<p class=\"note\">Line: mean over seeds. Band: smallest to "
         "largest seed.</p>\n" +
         plots;
}

// Per arm one plot per statistic, a curve for each norm.
std::string norm_plots(const ReportInput& input) {
  std::string out;
  // The ranges keep rounding noise from filling a plot.
  struct Column {
    const char *name, *label, *range;
  };
  const Column kColumns[] = {
      {"input_mean_over_rms", "mean of the norm's input / its rms", "[*<0:0.01<*]"},
      {"rms", "rms of the norm's input", "[0:*]"},
      {"gain", "mean |gain|", "[*<0.9:1.1<*]"}};
  for (const ReportArm& arm : input.arms) {
    const std::vector<std::string> norms = keys_of(arm, "norm_stats.csv", "norm");
    std::string plots;
    for (const auto& [column, label, range] : kColumns) {
      std::vector<Curve> curves;
      for (const std::string& norm : norms)
        curves.push_back(mean_curve(arm, "norm_stats.csv", column, "norm", norm));
      plots += plot_svg(curves, {arm.label + ": " + label, "step", label, false, range});
    }
    if (!plots.empty()) out += fmt::format("<h3>{}</h3>\n{}", escape_html(arm.label), plots);
  }
  if (out.empty()) return "";
  return "<h2>Norm statistics over training</h2>\n<p class=\"note\">In an exact CBWC arm the mean "
         "of every norm's input is 0 up to rounding.</p>\n" +
         out;
}

// The largest attention logit of any block, one curve an arm.
std::string attention_plot(const ReportInput& input) {
  std::vector<Curve> curves;
  for (const ReportArm& arm : input.arms) {
    Curve largest;
    largest.label = arm.label;
    for (const std::string& block : keys_of(arm, "attention.csv", "block")) {
      const Curve one = mean_curve(arm, "attention.csv", "max_logit", "block", block);
      if (largest.x.empty()) {
        largest.x = one.x, largest.y = one.y;
      } else {
        for (size_t i = 0; i < std::min(one.y.size(), largest.y.size()); ++i)
          largest.y[i] = std::max(largest.y[i], one.y[i]);
      }
    }
    largest.low = largest.high = largest.y;
    curves.push_back(largest);
  }
  const std::string svg =
      plot_svg(curves, {"Largest attention logit of any block", "step", "logit", true, ""});
  return svg.empty() ? "" : "<h2>Attention logits</h2>\n" + svg;
}

// Gradient norm by depth: modules in file order at the first measured step.
std::string depth_plot(const ReportInput& input) {
  std::vector<Curve> curves;
  for (const ReportArm& arm : input.arms) {
    Curve depth;
    depth.label = arm.label;
    for (const std::string& module : keys_of(arm, "grad_depth.csv", "module")) {
      const Curve one = mean_curve(arm, "grad_depth.csv", "grad_norm", "module", module);
      if (one.x.empty()) continue;
      depth.x.push_back(static_cast<double>(depth.x.size()));
      depth.y.push_back(one.y[0]), depth.low.push_back(one.low[0]);
      depth.high.push_back(one.high[0]);
    }
    curves.push_back(depth);
  }
  const std::string svg = plot_svg(curves, {"Gradient norm by depth at the first step",
                                            "module, from input to output", "norm", true, ""});
  return svg.empty() ? "" : "<h2>Gradient by depth</h2>\n" + svg;
}

std::string notes_section(const ReportInput& input, const std::vector<std::string>& notes) {
  std::vector<std::string> all = notes;
  for (const json& holder : {results_of(input), input.result})
    if (holder.is_object() && holder.contains("notes") && holder["notes"].is_array())
      for (const json& note : holder["notes"])
        if (note.is_string() && std::find(all.begin(), all.end(), note) == all.end())
          all.push_back(note.get<std::string>());
  const json exactness = exactness_of(input.result);
  if (all.empty() && exactness.empty()) return "";
  std::string out = "<h2>Is CBWC+RMSNorm exact here?</h2>\n";
  if (!all.empty()) out += "<ul>\n";
  for (const std::string& note : all) out += "<li>" + escape_html(note) + "</li>\n";
  if (!all.empty()) out += "</ul>\n";
  return out + exactness_html(exactness);
}

std::string config_section(const ReportInput& input) {
  if (!input.result.is_object() || !input.result.contains("config")) return "";
  return "<details><summary>Complete config</summary><pre>" +
         escape_html(input.result["config"].dump(2)) + "</pre></details>\n";
}

}  // namespace

std::string write_report(const std::string& dir, const std::vector<std::string>& notes) {
  const ReportInput input = read_report_input(dir);
  std::string html = head(input) + table(input) + paired(input) + notes_section(input, notes);
  if (have_gnuplot())
    html += loss_plots(input) + norm_plots(input) + attention_plot(input) + depth_plot(input);
  else
    html +=
        "<h2>Plots</h2>\n<p class=\"note\">No plots: gnuplot could not be run (apt-get install "
        "gnuplot-nox). Then <code>cbwc report DIR</code> makes this page again, with them.</p>\n";
  html += config_section(input);
  const std::string path = (fs::path(dir) / "report.html").string();
  write_text_file(path, html_page(input.title, html));
  return path;
}

}  // namespace cbwc
