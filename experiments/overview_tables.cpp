// The overview as plain text, as Markdown and as a page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "experiments/overview.h"
#include "experiments/report_page.h"

namespace cbwc {
namespace {

// The cells of one row, in the order of kHeads.
struct Cells {
  std::string arm, seeds, metric, difference, verdict, time, ratio, memory;
};

std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "";
}

Cells cells_of(const OverviewTask& task, const OverviewRow& row) {
  Cells c;
  c.arm = row.arm;
  if (row.reference) {
    c.metric = number(row.metric.mean, task.metric.digits);
    c.verdict = "reference";
    return c;
  }
  c.seeds = fmt::format("{}", row.seeds);
  if (row.diverged > 0) c.seeds += fmt::format(" ({} diverged)", row.diverged);
  c.metric = format_interval(row.metric, task.metric.digits);
  if (row.verdict.empty()) {
    c.verdict = row.arm == task.baseline ? "baseline" : "no baseline";
  } else {
    c.difference = format_difference(row.difference.difference, task.metric.digits);
    c.verdict = row.verdict;
  }
  c.time = number(row.step_ms, 1);
  c.ratio = number(row.time_ratio, 2);
  c.memory = number(row.peak_mb, 0);
  return c;
}

std::string metric_words(const MetricInfo& info) {
  return info.unit.empty() ? info.label : info.label + ", " + info.unit;
}

std::string others_words(const OverviewRow& row) {
  std::vector<std::string> parts;
  for (const auto& [info, value] : row.others)
    parts.push_back(fmt::format("{} {}", metric_words(info), format_interval(value, info.digits)));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string markdown(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

constexpr const char* kNote =
    "Mean ± half-width of the 95 % t interval over seeds; differences seed by seed against the "
    "baseline arm; \"supported\": that interval leaves out 0 (each stands by itself: one in twenty "
    "by chance).";

}  // namespace

std::string overview_text(const std::vector<OverviewTask>& tasks) {
  std::string out =
      fmt::format("{:<16} {:>5} {:>20} {:>20}  {:<18} {:>8} {:>6} {:>8}\n", "arm", "seeds",
                  "mean ± 95 %", "against baseline", "the seeds say", "ms/step", "x", "peak MB");
  for (const OverviewTask& task : tasks) {
    out += fmt::format("\n{}: {}{}\n", task.title, metric_words(task.metric),
                       task.exactness.empty() ? "" : "; " + task.exactness);
    for (const OverviewRow& row : task.rows) {
      const Cells c = cells_of(task, row);
      out += fmt::format("{:<16} {:>5} {:>20} {:>20}  {:<18} {:>8} {:>6} {:>8}\n", c.arm, c.seeds,
                         c.metric, c.difference, c.verdict, c.time, c.ratio, c.memory);
      if (!row.others.empty()) out += fmt::format("{:<16} {}\n", "", others_words(row));
    }
  }
  return out + "\n" + kNote + "\n";
}

std::string overview_markdown(const std::vector<OverviewTask>& tasks,
                              const std::vector<std::string>& plots) {
  std::string out =
      "| task (metric) | arm | seeds | mean ± 95 % | against the baseline | the seeds say | ms per "
      "step | x |\n|---|---|---|---|---|---|---|---|\n";
  for (const OverviewTask& task : tasks) {
    std::string head = markdown(fmt::format("{} ({})", task.title, metric_words(task.metric)));
    for (const OverviewRow& row : task.rows) {
      const Cells c = cells_of(task, row);
      out += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", head, markdown(c.arm),
                         c.seeds, c.metric, c.difference, c.verdict, c.time, c.ratio);
      head.clear();
    }
  }
  out += fmt::format("\n{}\n", kNote);
  for (const OverviewTask& task : tasks)
    if (!task.exactness.empty()) out += fmt::format("\n{}: {}.\n", task.title, task.exactness);
  for (size_t i = 0; i < tasks.size() && i < plots.size(); ++i)
    if (!plots[i].empty())
      out += fmt::format("\n![{}: {} over training]({})\n", tasks[i].title, tasks[i].curve.label,
                         plots[i]);
  return out;
}

std::string overview_html(const std::vector<OverviewTask>& tasks,
                          const std::vector<std::string>& svgs) {
  std::string body =
      "<h1>Overview</h1>\n<div class=\"scroll\"><table><tr><th>task</th><th class=\"text\">arm</th>"
      "<th>seeds</th><th>mean ± 95 %</th><th>against the baseline</th><th class=\"text\">the seeds "
      "say</th><th>ms per step</th><th>x</th><th>peak MB</th></tr>\n";
  for (const OverviewTask& task : tasks) {
    std::string head = fmt::format("{}<br><span class=\"note\">{}</span>", escape_html(task.title),
                                   escape_html(metric_words(task.metric)));
    for (const OverviewRow& row : task.rows) {
      const Cells c = cells_of(task, row);
      body += fmt::format(
          "<tr{}><td>{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td>"
          "<td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
          head.empty() ? "" : " class=\"task\"", head, escape_html(c.arm), c.seeds, c.metric,
          c.difference, c.verdict, c.time, c.ratio, c.memory);
      head.clear();
    }
  }
  body += fmt::format(
      "</table></div>\n<p class=\"note\">{} x: the step's time over the "
      "baseline's.</p>\n",
      escape_html(kNote));
  for (size_t i = 0; i < tasks.size(); ++i) {
    body += fmt::format("<h2>{}</h2>\n", escape_html(tasks[i].title));
    std::string items;
    for (const OverviewRow& row : tasks[i].rows)
      if (!row.others.empty())
        items +=
            fmt::format("<li>{}: {}</li>\n", escape_html(row.arm), escape_html(others_words(row)));
    if (!items.empty()) body += "<ul>\n" + items + "</ul>\n";
    body += i < svgs.size() ? svgs[i] : "";
    body += exactness_html(tasks[i].norms);
  }
  if (std::all_of(svgs.begin(), svgs.end(), [](const std::string& svg) { return svg.empty(); }))
    body +=
        "<p class=\"note\">No plots: gnuplot could not be run (apt-get install gnuplot-nox), or "
        "there is no curve.</p>\n";
  return html_page("Overview", body);
}

}  // namespace cbwc
