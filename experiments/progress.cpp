#include "experiments/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace cbwc {

std::string format_seconds(double seconds) {
  const int64_t s = static_cast<int64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m {:02}s", s / 60, s % 60);
  return fmt::format("{}h {:02}m", s / 3600, s % 3600 / 60);
}

Progress::Progress(std::string title, int64_t first_step, int64_t total_steps, int64_t interval,
                   bool quiet, std::string unit)
    : title_(std::move(title)),
      unit_(std::move(unit)),
      first_(first_step),
      total_(total_steps),
      interval_(interval < 1 ? 1 : interval),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() { finish(); }

std::string Progress::time_left(int64_t step) const {
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  const int64_t done = step - first_;
  if (done < 1) return "?";
  return format_seconds(spent.count() / static_cast<double>(done) *
                        static_cast<double>(total_ - step));
}

void Progress::update(const ProgressLine& line) {
  if (quiet_) return;
  const bool last = line.step >= total_;
  const std::string text = fmt::format("step {}/{}  loss {:.4f}  lr {:.2e}  {:.0f} {}/s  {}{}{}",
                                       line.step, total_, line.loss, line.lr, line.rate, unit_,
                                       last ? "done" : time_left(line.step) + " left",
                                       line.note.empty() ? "" : "  ", line.note);
  if (!terminal_) {
    const bool due = printed_ < 0 || line.step % interval_ == 0 || last || !line.note.empty();
    if (!due || line.step == printed_) return;
    fmt::print(stderr, "{}: {}\n", title_, text);
    printed_ = line.step;
    return;
  }
  // Ten redraws a second are enough; a note or the last step is always drawn.
  const auto now = std::chrono::steady_clock::now();
  if (!last && line.note.empty() && open_ && now - drawn_ < std::chrono::milliseconds(100)) return;
  constexpr int64_t kWidth = 20;
  const int64_t full = total_ > 0 ? kWidth * line.step / total_ : kWidth;
  fmt::print(stderr, "\r\033[K{} [{}{}] {}", title_, std::string(static_cast<size_t>(full), '='),
             std::string(static_cast<size_t>(kWidth - full), ' '), text);
  std::fflush(stderr);
  drawn_ = now;
  open_ = true;
}

void Progress::message(const std::string& text) {
  fmt::print(stderr, "{}{}\n", open_ ? "\r\033[K" : "", text);
  open_ = false;
}

void Progress::finish() {
  if (open_) fmt::print(stderr, "\n");
  open_ = false;
}

}  // namespace cbwc
