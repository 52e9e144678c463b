// The notices (core/notices.h) of one run: a warning for the first of each kind, and their counts.
#pragma once
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/notices.h"

namespace cbwc {

class NoticeLog {
 public:
  NoticeLog();                       // counts from here on
  std::vector<std::string> fresh();  // one line for each kind that has not been warned of yet
  int64_t count(Notice notice) const;
  nlohmann::json to_json() const;  // {"all_targets_ignored": 0, ...}

 private:
  std::array<int64_t, kNotices.size()> start_{};
  std::array<bool, kNotices.size()> warned_{};
};

}  // namespace cbwc
