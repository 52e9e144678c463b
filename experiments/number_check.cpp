#include "experiments/number_check.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

namespace cbwc {
namespace {

CLI::Validator range_check(const std::string& expected, std::function<bool(double)> fits) {
  const auto check = [=](std::string& text) -> std::string {
    double x = 0;
    const bool number = CLI::detail::lexical_cast(text, x) && std::isfinite(x);
    return number && fits(x)
               ? ""
               : "got " + text + ", expected " + (number ? "" : "a number, ") + expected;
  };
  return CLI::Validator(check, expected);
}

}  // namespace

CLI::Validator at_least(double least) {
  return range_check(fmt::format("at least {:g}", least), [=](double x) { return x >= least; });
}
CLI::Validator above(double least) {
  return range_check(fmt::format("above {:g}", least), [=](double x) { return x > least; });
}
CLI::Validator between(double least, double most) {
  return range_check(fmt::format("{:.7g} to {:.7g}", least, most),
                     [=](double x) { return x >= least && x <= most; });
}

}  // namespace cbwc
