// Reads a config.json key by key and knows in the end which keys nobody asked for.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "data/json.h"

namespace cbwc {

class HfOptions {
 public:
  HfOptions(const nlohmann::json& json, std::string file);

  // The first of `names` that is there; Error when none is, or for another type.
  int64_t integer(const std::vector<std::string>& names);  // of at least 1
  double number(const std::vector<std::string>& names);
  std::string text(const std::vector<std::string>& names);
  std::vector<int64_t> integers(const std::string& name);
  bool flag(const std::string& name, bool when_absent);
  const nlohmann::json* find(const std::vector<std::string>& names);  // null: absent or null

  // Any other value than this would be another function. Absent stands for this value.
  void require(const std::string& name, const nlohmann::json& value, const std::string& why);
  void ignore(const std::vector<std::string>& names);  // they do not change the function
  // Error naming the keys that were not asked for. Returns those of them that are `allowed`.
  std::vector<std::string> finish(const std::vector<std::string>& allowed);
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const;
  const std::set<std::string>& asked() const { return asked_; }

 private:
  const nlohmann::json& get(const std::vector<std::string>& names);
  const nlohmann::json json_;
  const std::string file_;
  std::set<std::string> asked_;
};

}  // namespace cbwc
