// Progress on stderr: one bar line on a terminal, one plain line per interval elsewhere, nothing
// when quiet. Results never go here.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace cbwc {

struct ProgressLine {
  int64_t step = 0;
  double loss = 0, lr = 0, rate = 0;
  std::string note;  // e.g. "val 2.31"
};

class Progress {
 public:
  // Plain lines come every `interval` steps, and for the first and the last step.
  Progress(std::string title, int64_t first_step, int64_t total_steps, int64_t interval, bool quiet,
           std::string unit = "tokens");
  ~Progress();
  void start_at(int64_t step) { first_ = step; }  // of a resumed run, for the time left
  void update(const ProgressLine& line);
  void message(const std::string& text);  // a line of its own, above the bar; also when quiet
  void finish();

 private:
  std::string time_left(int64_t step) const;
  std::string title_, unit_;
  int64_t first_, total_, interval_, printed_ = -1;
  bool quiet_, terminal_, open_ = false;
  std::chrono::steady_clock::time_point start_, drawn_;
};

std::string format_seconds(double seconds);  // "42s", "3m 05s", "2h 10m"

}  // namespace cbwc
