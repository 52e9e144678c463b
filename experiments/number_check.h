// Checks of a number's range for the command line, whose message says what was expected. Infinity
// and NaN are refused.
#pragma once
#include <CLI/CLI.hpp>

namespace cbwc {

CLI::Validator at_least(double least);
CLI::Validator above(double least);
CLI::Validator between(double least, double most);

}  // namespace cbwc
