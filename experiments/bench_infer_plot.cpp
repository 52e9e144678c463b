// bench infer as a picture: how much faster than LayerNorm, over the sequence length.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "experiments/bench_infer.h"
#include "experiments/json_output.h"
#include "experiments/report_run.h"

namespace cbwc {
namespace {

// Okabe and Ito's colours, distinct for colour-blind readers too.
constexpr const char* kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                    "#E69F00", "#56B4E9", "#8C6D31", "#555555"};
constexpr const char* kBand = "#f3ecd2";
constexpr double kPaperLow = 2, kPaperHigh = 12;  // per cent

struct Point {
  double speedup, low, high;  // per cent
};
struct Line {
  std::string model;
  bool exact;                                       // the folded arm
  std::map<std::pair<int64_t, int64_t>, Point> at;  // by batch and sequence (images: 0)
};

// What was measured last counts, where runs overlap.
std::vector<Line> lines_of(const std::vector<nlohmann::json>& results) {
  std::vector<Line> lines;
  for (const nlohmann::json& result : results)
    for (const nlohmann::json& row : result.at("rows")) {
      const std::string arm = row.at("arm"), model = row.at("model");
      if (row.contains("by")) continue;  // another program's
      if (row.at("name") != "infer" || (arm != "folded" && arm != kAllRmsNorm)) continue;
      const bool exact = arm == "folded";
      auto line = std::find_if(lines.begin(), lines.end(),
                               [&](const Line& l) { return l.model == model && l.exact == exact; });
      if (line == lines.end()) line = lines.insert(line, {model, exact, {}});
      const auto percent = [](const nlohmann::json& ratio) {
        return 100 * (number_from_json(ratio) - 1);
      };
      const nlohmann::json& interval = row.at("speedup_ci95");
      Point p = {percent(row.at("speedup_over_layernorm")), percent(interval.at(0)),
                 percent(interval.at(1))};
      if (std::isnan(p.low) || std::isnan(p.high)) p.low = p.high = p.speedup;
      line->at[{row.at("batch"), row.at("seq")}] = p;
    }
  return lines;
}

struct Panel {
  std::string title, x_label;
  bool images;
  int64_t batch;  // of texts
};

std::vector<Panel> panels_of(const std::vector<Line>& lines) {
  std::set<int64_t> batches;
  bool images = false;
  for (const Line& line : lines)
    for (const auto& [shape, point] : line.at) {
      if (shape.second > 0)
        batches.insert(shape.first);
      else
        images = true;
    }
  std::vector<Panel> panels;
  for (const int64_t b : batches)
    panels.push_back({fmt::format("{} text{} at a time", b, b == 1 ? "" : "s"),
                      "sequence length, tokens", false, b});
  if (images) panels.push_back({"images", "images at a time", true, 0});
  return panels;
}

std::map<std::string, std::string> colours_of(const std::vector<Line>& lines) {
  std::map<std::string, std::string> colours;
  for (const Line& line : lines)
    colours.try_emplace(line.model, kColours[colours.size() % std::size(kColours)]);
  return colours;
}

std::string line_style(const Line& line, const std::string& colour) {
  return fmt::format("lw 2 lc rgb '{}' dt {}", colour, line.exact ? 1 : 2);
}

std::string point_style(const Line& line, const std::string& colour) {
  return fmt::format("lw 2 lc rgb '{}' pt {} ps 0.7", colour, line.exact ? 7 : 6);
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

// Its points as a data block and the command that draws it; nothing where it has none.
struct Drawn {
  std::string data, command;
};
Drawn draw(const Line& line, size_t index, size_t panel, const Panel& p,
           const std::string& colour) {
  Drawn out;
  // Side by side, or the intervals would hide each other.
  const double beside = std::pow(1.05, static_cast<double>(index) - 3);
  for (const auto& [shape, point] : line.at) {
    const auto [batch, seq] = shape;
    if ((seq == 0) != p.images || (!p.images && batch != p.batch)) continue;
    const auto x = static_cast<double>(p.images ? batch : seq);
    out.data += fmt::format("{} {} {} {}\n", x * beside, point.speedup, point.low, point.high);
  }
  if (out.data.empty()) return out;
  const std::string block = fmt::format("$p{}_{}", panel, index);
  out.data = block + " << EOD\n" + out.data + "EOD\n";
  out.command = fmt::format("{} using 1:2 with lines {}, {} using 1:2:3:4 with yerrorbars {}",
                            block, line_style(line, colour), block, point_style(line, colour));
  return out;
}

// Medians all inside; an interval may reach beyond the edge.
std::string y_range(const std::vector<Line>& lines) {
  double low = -2, high = kPaperHigh + 1;
  for (const Line& line : lines)
    for (const auto& [shape, point] : line.at) {
      low = std::min(low, point.speedup - 1);
      high = std::max(high, point.speedup + 1);
    }
  return fmt::format("[{}:{}]", std::floor(low), std::ceil(high));
}

std::string tics(const std::vector<Line>& lines, const Panel& p) {
  std::set<int64_t> at;
  for (const Line& line : lines)
    for (const auto& [shape, point] : line.at)
      if ((shape.second == 0) == p.images) at.insert(p.images ? shape.first : shape.second);
  std::string list;
  for (const int64_t x : at) list += fmt::format("{}{}", list.empty() ? "" : ", ", x);
  return fmt::format("set xtics ({})\nset xrange [{}:{}]\n", list,
                     0.6 * static_cast<double>(*at.begin()),
                     1.7 * static_cast<double>(*at.rbegin()));
}

// Placed by hand below the panels: gnuplot's own key cuts long names.
std::string legend(const std::vector<Line>& lines, std::map<std::string, std::string>& colours) {
  constexpr size_t kColumns = 3;
  const size_t rows = (lines.size() + kColumns) / kColumns;  // one more for the paper's range
  const double step = std::min(0.23, 0.92 / static_cast<double>(rows));
  std::string labels, data, commands;
  for (size_t i = 0; i <= lines.size(); ++i) {
    const double x = 0.06 + 0.31 * static_cast<double>(i / rows),
                 y = 0.87 - step * static_cast<double>(i % rows);
    const bool paper = i == lines.size();
    labels += fmt::format(
        "set label {} {} at {},{} left noenhanced\n", i + 1,
        quoted(paper ? fmt::format("the paper's range: {} to {} %", kPaperLow, kPaperHigh)
                     : lines[i].model + (lines[i].exact ? ", folded (exact)"
                                                        : ", every norm RMSNorm (not exact)")),
        x + 0.045, y);
    if (paper) {
      labels +=
          fmt::format("set object 1 rectangle from {},{} to {},{} fc rgb '{}' fs solid noborder\n",
                      x, y - 0.07, x + 0.036, y + 0.07, kBand);
      continue;
    }
    data +=
        fmt::format("$l{} << EOD\n{} {}\n{} {}\n{} {}\nEOD\n", i, x, y, x + 0.018, y, x + 0.036, y);
    commands +=
        fmt::format("{}$l{} using 1:2 with lines {}, $l{} using 1:2 every ::1::1 with points {}",
                    i == 0 ? "" : ", ", i, line_style(lines[i], colours[lines[i].model]), i,
                    point_style(lines[i], colours[lines[i].model]));
  }
  return "set lmargin 0\nset rmargin 0\nset tmargin 0\nset bmargin 0\nset origin 0,0\n"
         "set size 1,0.2\nunset title\nunset border\nunset tics\nunset grid\nunset xlabel\n"
         "unset ylabel\nunset object\nunset arrow\nunset label\nunset logscale\nset xrange [0:1]\n"
         "set yrange [0:1]\n" +
         data + labels + "plot " + commands + "\n";
}

}  // namespace

std::string infer_plot_svg(const std::vector<nlohmann::json>& results) {
  const std::vector<Line> lines = lines_of(results);
  if (lines.empty()) return "";
  const std::vector<Panel> panels = panels_of(lines);
  std::map<std::string, std::string> colours = colours_of(lines);
  std::string out = fmt::format(
      "set terminal svg size {},600 enhanced font 'Helvetica,15' background '#ffffff'\n"
      "set encoding utf8\nset multiplot\nset border 3 lc rgb '#555555'\nset tics nomirror\n"
      "set grid lc rgb '#dddddd' lt 1\nset tmargin 3\nset bmargin 3.6\nset bars 0.6\nset logscale "
      "x 2\nset yrange {}\nunset key\n"
      "set label 1 'How much faster than LayerNorm one forward pass is, with 95 % intervals' at "
      "screen 0.5,0.965 center font ',17'\n"
      "set object 1 rectangle from graph 0, first {} to graph 1, first {} fc rgb '{}' "
      "fs solid noborder behind\n"
      "set arrow 1 from graph 0, first 0 to graph 1, first 0 nohead lw 2 lc rgb '#333333' back\n",
      std::max<size_t>(1260, 420 * panels.size()), y_range(lines), kPaperLow, kPaperHigh, kBand);
  double width = 0, origin = 0;
  for (const Panel& p : panels) width += p.images ? 0.7 : 1;
  for (size_t i = 0; i < panels.size(); ++i) {
    const Panel& p = panels[i];
    const double share = (p.images ? 0.7 : 1) / width;
    std::string commands;
    for (size_t k = 0; k < lines.size(); ++k) {
      const Drawn drawn = draw(lines[k], k, i, p, colours[lines[k].model]);
      out += drawn.data;
      if (!drawn.command.empty()) commands += (commands.empty() ? "" : ", ") + drawn.command;
    }
    out += fmt::format(
        "set origin {},0.2\nset size {},0.76\nset title {}\nset xlabel {}\nset ylabel {}\n", origin,
        share, quoted(p.title), quoted(p.x_label),
        quoted(i == 0 ? "faster than LayerNorm by, %  (0: as fast)" : ""));
    out += tics(lines, p) + "plot " + commands + "\n";
    if (i == 0) out += "unset label 1\n";
    origin += share;
  }
  return gnuplot_svg(out + legend(lines, colours) + "unset multiplot\n", "infer_");
}

}  // namespace cbwc
