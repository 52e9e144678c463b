// The notices (core/notices.h) of one run: a warning for the first of each kind, and their counts.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "core/notices.h"
#include "data/json.h"

namespace cbwc {

class NoticeLog {
 public:
  // Counts from here on, after those of an earlier part of the run (its to_json()).
  explicit NoticeLog(const nlohmann::json& earlier = nlohmann::json::object());
  std::vector<std::string> fresh();  // one line for each kind that has not been warned of yet
  int64_t count(Notice notice) const;
  nlohmann::json to_json() const;  // {"all_targets_ignored": 0, ...}

 private:
  std::array<int64_t, kNotices.size()> start_{};  // what notice_count() was at a count of 0
  std::array<bool, kNotices.size()> warned_{};
};

}  // namespace cbwc
