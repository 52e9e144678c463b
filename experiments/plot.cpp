// Plots through gnuplot, run as a process: its script and data go to a private folder, the SVG
// comes back as text to put into the report.
#include <fmt/format.h>

#include <cctype>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "data/process.h"
#include "data/temporary_folder.h"
#include "experiments/report_run.h"

namespace cbwc {
namespace {

namespace fs = std::filesystem;

// Okabe and Ito's colours, distinct for colour-blind readers too.
constexpr const char* kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                    "#E69F00", "#56B4E9", "#8C6D31", "#555555"};

// False too where gnuplot is not installed or cannot be started: have_gnuplot() tells, and a report
// does without its plots.
bool run_gnuplot(const std::string& argument) {
  try {
    return run_process({"gnuplot", argument}, "gnuplot-nox").exit_code == 0;
  } catch (const std::exception&) {
    return false;
  }
}

std::string gnuplot_text(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

bool has_band(const Curve& curve) {
  for (size_t i = 0; i < curve.x.size(); ++i)
    if (curve.high[i] > curve.low[i]) return true;
  return false;
}

std::string script(const std::vector<Curve>& curves, const PlotOptions& options,
                   const fs::path& folder) {
  std::string out = fmt::format(
      "set terminal svg size 860,440 enhanced font 'Helvetica,14' background '#ffffff'\n"
      "set encoding utf8\nset title {} noenhanced\nset xlabel {} noenhanced\n"
      "set ylabel {} noenhanced\nset key outside right top vertical noenhanced samplen 2\n"
      "set grid lc rgb '#dddddd' lt 1\nset border 3 lc rgb '#555555'\nset tics nomirror\n"
      "set datafile missing 'nan'\n",
      gnuplot_text(options.title), gnuplot_text(options.x_label), gnuplot_text(options.y_label));
  if (!options.y_range.empty()) out += "set yrange " + options.y_range + "\n";
  if (options.log_y) out += "set logscale y\nset format y '%.0e'\n";
  std::vector<std::string> parts;
  // Beyond a few curves the bands hide more than they show.
  for (size_t i = 0; curves.size() <= 4 && i < curves.size(); ++i) {
    const std::string file = gnuplot_text((folder / fmt::format("{}.dat", i)).string());
    const char* colour = kColours[i % std::size(kColours)];
    if (has_band(curves[i]))
      parts.push_back(fmt::format(
          "{} using 1:3:4 with filledcurves fs transparent solid 0.18 noborder lc rgb '{}' notitle",
          file, colour));
  }
  for (size_t i = 0; i < curves.size(); ++i) {
    const std::string file = gnuplot_text((folder / fmt::format("{}.dat", i)).string());
    // Beyond the colours, dashes tell curves apart. Of a few, the lower ones are wider: equal
    // curves would hide each other.
    const double width =
        curves.size() <= 4 ? 2 + 2.5 * static_cast<double>(curves.size() - 1 - i) : 2;
    parts.push_back(fmt::format("{} using 1:2 with {} lw {} dt {} pt 7 ps 0.5 lc rgb '{}' title {}",
                                file, curves[i].x.size() < 12 ? "linespoints" : "lines", width,
                                1 + i / std::size(kColours), kColours[i % std::size(kColours)],
                                gnuplot_text(curves[i].label)));
  }
  return out + fmt::format("plot {}\n", fmt::join(parts, ", \\\n  "));
}

// One page holds many plots: their ids must differ.
std::string with_own_ids(const std::string& svg, const std::string& title) {
  std::string prefix;
  for (const char c : title) prefix += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  std::string out;
  for (size_t i = 0; i < svg.size(); ++i) {
    bool found = false;
    for (const std::string mark : {" id=\"", "href=\"#", "url(#", " id='", "href='#"})
      if (!found && svg.compare(i, mark.size(), mark) == 0) {
        out += mark + prefix + "_";
        i += mark.size() - 1;
        found = true;
      }
    if (!found) out += svg[i];
  }
  return out;
}

}  // namespace

std::string gnuplot_svg(const std::string& script, const std::string& ids) {
  const TemporaryFolder folder;
  const fs::path file = fs::path(folder.path()) / "own.gp",
                 out = fs::path(folder.path()) / "own.svg";
  std::ofstream(file) << "set output " << gnuplot_text(out.string()) << "\n" << script;
  if (!run_gnuplot(file.string())) return "";
  std::ifstream in(out, std::ios::binary);
  const std::string svg((std::istreambuf_iterator<char>(in)), {});
  const size_t begin = svg.find("<svg");
  return begin == std::string::npos ? "" : with_own_ids(svg.substr(begin), ids);
}

bool have_gnuplot() { return run_gnuplot("--version"); }

std::string plot_svg(const std::vector<Curve>& all, const PlotOptions& options) {
  std::vector<Curve> curves;
  for (const Curve& curve : all)
    if (!curve.x.empty()) curves.push_back(curve);
  if (curves.empty()) return "";
  const TemporaryFolder folder;
  for (size_t i = 0; i < curves.size(); ++i) {
    std::ofstream data(fs::path(folder.path()) / fmt::format("{}.dat", i));
    const Curve& c = curves[i];
    for (size_t k = 0; k < c.x.size(); ++k)
      data << fmt::format("{} {} {} {}\n", c.x[k], c.y[k], c.low[k], c.high[k]);
  }
  return gnuplot_svg(script(curves, options, folder.path()), options.title);
}

}  // namespace cbwc
