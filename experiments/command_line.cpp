#include "experiments/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <utility>

namespace cbwc {
namespace {

ValueCheck range_check(const std::string& expected, std::function<bool(double)> fits) {
  const auto check = [=](std::string& text) -> std::string {
    double x = 0;
    const bool number = CLI::detail::lexical_cast(text, x) && std::isfinite(x);
    return number && fits(x)
               ? ""
               : "got " + text + ", expected " + (number ? "" : "a number, ") + expected;
  };
  return ValueCheck(std::make_shared<CLI::Validator>(check, expected));
}

}  // namespace

ValueCheck::ValueCheck(std::shared_ptr<CLI::Validator> validator)
    : validator_(std::move(validator)) {}

ValueCheck at_least(double least) {
  return range_check(fmt::format("at least {:g}", least), [=](double x) { return x >= least; });
}
ValueCheck above(double least) {
  return range_check(fmt::format("above {:g}", least), [=](double x) { return x > least; });
}
ValueCheck between(double least, double most) {
  return range_check(fmt::format("{:.7g} to {:.7g}", least, most),
                     [=](double x) { return x >= least && x <= most; });
}
ValueCheck one_of(const std::vector<std::string>& words) {
  return ValueCheck(std::make_shared<CLI::Validator>(CLI::IsMember(words)));
}

Option Option::type_name(const std::string& name) { return Option(option_->type_name(name)); }
Option Option::check(const ValueCheck& check) { return Option(option_->check(*check.validator_)); }
Option Option::required() { return Option(option_->required()); }
Option Option::group(const std::string& name) { return Option(option_->group(name)); }
Option Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}
Option Option::one_value_each() {
  return Option(option_->expected(1)
                    ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
                    ->allow_extra_args(false));
}
std::size_t Option::count() const { return option_->count(); }

CommandLine CommandLine::add_subcommand(const std::string& name, const std::string& help) {
  return CommandLine(*app_->add_subcommand(name, help));
}
void CommandLine::require_subcommand() { app_->require_subcommand(1); }
template <typename T>
Option CommandLine::add_option(const std::string& name, T& value, const std::string& help) {
  return Option(app_->add_option(name, value, help));
}
template Option CommandLine::add_option(const std::string&, std::string&, const std::string&);
template Option CommandLine::add_option(const std::string&, int&, const std::string&);
template Option CommandLine::add_option(const std::string&, std::int64_t&, const std::string&);
template Option CommandLine::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option CommandLine::add_option(const std::string&, double&, const std::string&);
template Option CommandLine::add_option(const std::string&, std::vector<std::string>&,
                                        const std::string&);
template Option CommandLine::add_option(const std::string&, std::vector<std::int64_t>&,
                                        const std::string&);
Option CommandLine::add_flag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_->add_flag(name, value, help));
}
Option CommandLine::add_flag_callback(const std::string& name, std::function<void()> given,
                                      const std::string& help) {
  return Option(app_->add_flag_callback(name, std::move(given), help));
}
void CommandLine::callback(std::function<void()> run) { app_->callback(std::move(run)); }
std::size_t CommandLine::count(const std::string& option) const { return app_->count(option); }

}  // namespace cbwc
