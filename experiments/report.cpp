#include "experiments/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "experiments/json_output.h"
#include "experiments/report_run.h"
#include "experiments/statistics.h"

namespace cbwc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kStyle = R"(<style>
body{font:16px/1.5 system-ui,"Segoe UI",Helvetica,Arial,sans-serif;color:#222;max-width:60em;
margin:2em auto;padding:0 1em;background:#fff}
h1{font-size:1.7em;margin-bottom:.2em}h2{font-size:1.25em;margin-top:2em;border-bottom:1px solid #ddd}
table{border-collapse:collapse;font-size:.92em;margin:1em 0}th,td{padding:.35em .8em;text-align:right;
border-bottom:1px solid #e4e4e4;white-space:nowrap}th:first-child,td:first-child{text-align:left}
th{background:#f4f6f8}.note{color:#555;font-size:.92em}.bad{color:#b00020;font-weight:600}
.scroll{overflow-x:auto}svg{max-width:100%;height:auto;margin:.6em 0}code{background:#f2f2f2;padding:0 .2em}
details{margin:1em 0}pre{background:#f6f8fa;padding:.8em;overflow-x:auto;font-size:.85em}
</style>
)";

double field(const json& entry, const char* key) {
  const auto it = entry.find(key);
  return it == entry.end() ? std::numeric_limits<double>::quiet_NaN() : number_from_json(*it);
}

std::vector<double> finite_values(const ReportArm& arm, const char* key) {
  std::vector<double> values;
  for (const json& entry : arm.results)
    if (const double v = field(entry, key); std::isfinite(v)) values.push_back(v);
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

std::string head(const ReportInput& input) {
  std::string out = fmt::format("<h1>{}</h1>\n", escape_html(input.title));
  const json config =
      input.result.is_object() ? input.result.value("config", json::object()) : json::object();
  if (config.contains("model") && config.contains("run")) {
    const json &m = config["model"], &r = config["run"];
    const json data = config.value("data", json::object());
    out += fmt::format(
        "<p>{} with {} layers, width {}, {} heads, context {}; {} steps of batch {}; dropout {} "
        "({}); {} arm(s), seeds {}.</p>\n",
        escape_html(m.value("family", "model")), m.value("layers", 0), m.value("dim", 0),
        m.value("heads", 0), m.value("context", 0), r.value("steps", 0), data.value("batch", 0),
        m.value("dropout", 0.0), escape_html(m.value("dropout_placement", "")), input.arms.size(),
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

std::string table(const ReportInput& input) {
  std::string out =
      "<h2>Results</h2>\n<div class=\"scroll\"><table><tr><th>arm</th><th>seeds</th>"
      "<th>validation loss</th><th>perplexity</th><th>ms per step</th><th>tokens/s</th>"
      "<th>peak MB</th><th>diverged</th></tr>\n";
  for (const ReportArm& arm : input.arms) {
    const std::vector<double> losses = finite_values(arm, "val_loss");
    std::vector<double> perplexities;
    for (const double loss : losses) perplexities.push_back(std::exp(loss));
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td></tr>\n",
        escape_html(arm.label), arm.results.size(), format_interval(mean_interval(losses), 4),
        format_interval(mean_interval(perplexities), 3),
        one_number(median(finite_values(arm, "step_ms_median")), 1),
        one_number(median(finite_values(arm, "tokens_per_s")), 0),
        one_number(median(finite_values(arm, "peak_mb")), 0), diverged(arm));
  }
  return out +
         "</table></div>\n<p class=\"note\">Mean ± half-width of the 95 % t interval over seeds; "
         "n/a "
         "with one seed. Diverged runs are left out of the means. Time, speed and memory: the "
         "median "
         "over seeds.</p>\n";
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
    std::string verdict;
    if (!std::isfinite(mean))
      verdict = "no pair of finished runs";
    else if (!std::isfinite(ci))
      verdict = "one seed only: no interval, nothing can be said";
    else if (pair.value("supported", false))
      verdict = fmt::format("the difference is <b>supported</b> by the seeds: {} is {}",
                            escape_html(arm), mean < 0 ? "better" : "worse");
    else
      verdict = "<b>within noise</b>";
    out += fmt::format("<li>{} against {}{}: validation loss {} ± {} over {} seeds; {}.</li>\n",
                       escape_html(arm), escape_html(against), escape_html(variant),
                       std::isfinite(mean) ? fmt::format("{:+.4f}", mean) : "n/a",
                       one_number(ci, 4), pair.value("n", 0), verdict);
  }
  return out +
         "</ul>\n<p class=\"note\">Runs with the same seed start from the same numbers and see the "
         "same batches, so their difference is taken seed by seed. Supported: the 95 % interval "
         "does "
         "not contain 0.</p>\n";
}

std::vector<Curve> curves_of(const ReportInput& input, const std::string& file,
                             const std::string& column) {
  std::vector<Curve> curves;
  for (const ReportArm& arm : input.arms) curves.push_back(mean_curve(arm, file, column));
  return curves;
}

std::string loss_plots(const ReportInput& input) {
  const std::string train = plot_svg(curves_of(input, "metrics.csv", "train_loss"),
                                     {"Training loss", "step", "loss", false, ""});
  const std::string val = plot_svg(curves_of(input, "metrics.csv", "val_loss"),
                                   {"Validation loss", "step", "loss", false, ""});
  const std::string norm = plot_svg(curves_of(input, "metrics.csv", "grad_norm"),
                                    {"Gradient norm before clipping", "step", "norm", false, ""});
  if (train.empty() && val.empty()) return "";
  return "<h2>Loss</h2>\n<p class=\"note\">Line: mean over seeds. Band: smallest to largest "
         "seed.</p>\n" +
         val + train + norm;
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
  if (all.empty()) return "";
  std::string out = "<h2>Is CBWC+RMSNorm exact here?</h2>\n<ul>\n";
  for (const std::string& note : all) out += "<li>" + escape_html(note) + "</li>\n";
  return out + "</ul>\n";
}

std::string config_section(const ReportInput& input) {
  if (!input.result.is_object() || !input.result.contains("config")) return "";
  return "<details><summary>Complete config</summary><pre>" +
         escape_html(input.result["config"].dump(2)) + "</pre></details>\n";
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string write_report(const std::string& dir, const std::vector<std::string>& notes) {
  const ReportInput input = read_report_input(dir);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>{}</title>\n{}</head><body>\n",
      escape_html(input.title), kStyle);
  html += head(input) + table(input) + paired(input) + notes_section(input, notes);
  if (have_gnuplot())
    html += loss_plots(input) + norm_plots(input) + attention_plot(input) + depth_plot(input);
  else
    html +=
        "<h2>Plots</h2>\n<p class=\"note\">No plots: gnuplot could not be run (apt-get install "
        "gnuplot-nox). Then <code>cbwc report DIR</code> makes this page again, with them.</p>\n";
  html += config_section(input) + "</body></html>\n";
  const std::string path = (fs::path(dir) / "report.html").string();
  write_text_file(path, html);
  return path;
}

}  // namespace cbwc
