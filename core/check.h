// Errors and the check macro. Libraries throw; only the program prints and exits.
#pragma once
#include <fmt/format.h>

#include <sstream>
#include <stdexcept>
#include <string>

namespace cbwc {

// A user's mistake: bad input, file, option or config. The program exits with 2.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A run or a check that failed: diverged, not equal, not finite. The program exits with 1.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {
template <class... Args>
[[noreturn]] void fail(const Args&... args) {
  std::ostringstream text;
  (text << ... << args);
  throw Error(text.str());
}
}  // namespace detail
}  // namespace cbwc

// CBWC_CHECK(condition, parts...) throws Error with the parts joined. (Not named CHECK: that is
// Catch2's.) The message says what, where, and what was expected.
#define CBWC_CHECK(condition, ...)                       \
  do {                                                   \
    if (!(condition)) ::cbwc::detail::fail(__VA_ARGS__); \
  } while (false)
