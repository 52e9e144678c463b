// The options of a command, as its file in experiments/commands/ declares them. CLI11 does the work
// behind these handles: its headers cost every file that includes them 7 s of compiling, so only
// command_line.cpp, cli.cpp and missing_data.cpp do.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace cbwc {

// What a value must be; the message of a value that is not says what was expected.
class ValueCheck {
 public:
  explicit ValueCheck(std::shared_ptr<CLI::Validator> validator);

 private:
  friend class Option;
  std::shared_ptr<CLI::Validator> validator_;
};

// Of a number. Infinity and NaN are refused.
ValueCheck at_least(double least);
ValueCheck above(double least);
ValueCheck between(double least, double most);
ValueCheck one_of(const std::vector<std::string>& words);

// A handle, valid as long as the program's CLI::App.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option type_name(const std::string& name);  // in the help: "FILE"
  Option check(const ValueCheck& check);
  Option required();
  Option group(const std::string& name);
  Option excludes(Option other);
  // Repeatable, one value each time: the word after it is the command's again.
  Option one_value_each();
  std::size_t count() const;  // how often it was given

 private:
  CLI::Option* option_;
};

// A handle of a command, or of the program itself.
class CommandLine {
 public:
  explicit CommandLine(CLI::App& app) : app_(&app) {}

  CommandLine add_subcommand(const std::string& name, const std::string& help);
  void require_subcommand();
  // `value` is set when the line is parsed and must live until then. T: std::string, int,
  // std::int64_t, std::uint64_t, double and vectors of std::string and std::int64_t.
  template <typename T>
  Option add_option(const std::string& name, T& value, const std::string& help);
  Option add_flag(const std::string& name, bool& value, const std::string& help);
  Option add_flag_callback(const std::string& name, std::function<void()> given,
                           const std::string& help);
  void callback(std::function<void()> run);            // what the command does
  std::size_t count(const std::string& option) const;  // how often the option was given

 private:
  CLI::App* app_;
};

}  // namespace cbwc
