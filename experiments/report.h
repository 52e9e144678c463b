// report.html of a run or a comparison: one self-contained file made from what lies in the run
// directory (result.json, runs/*/metrics.csv, runs/*/norm_stats.csv, ...), so that `cbwc report`
// can make it again at any time.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace cbwc {

// A CSV file as columns; an empty field is nan, other text is kept in `text`. A row cut short (a
// killed writer) is left out. Error when the file is missing or its header is.
struct CsvTable {
  std::vector<std::string> header;
  std::map<std::string, std::vector<double>> numbers;
  std::map<std::string, std::vector<std::string>> text;
  size_t rows = 0;
};
CsvTable read_csv(const std::string& path);

// Writes DIR/report.html and returns its path. `notes`: one sentence each, on exactness and the
// like; for a comparison they are also read from result.json ("notes": [...]). Error when DIR is
// neither a run nor a comparison.
std::string write_report(const std::string& dir, const std::vector<std::string>& notes = {});

}  // namespace cbwc
