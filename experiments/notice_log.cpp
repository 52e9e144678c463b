#include "experiments/notice_log.h"

namespace cbwc {

NoticeLog::NoticeLog(const nlohmann::json& earlier) {
  for (size_t i = 0; i < kNotices.size(); ++i) {
    const int64_t before = earlier.value(notice_name(kNotices[i]), int64_t{0});
    start_[i] = notice_count(kNotices[i]) - before;
    warned_[i] = before > 0;
  }
}

int64_t NoticeLog::count(Notice notice) const {
  return notice_count(notice) - start_[static_cast<size_t>(notice)];
}

std::vector<std::string> NoticeLog::fresh() {
  std::vector<std::string> lines;
  for (size_t i = 0; i < kNotices.size(); ++i) {
    if (warned_[i] || count(kNotices[i]) == 0) continue;
    warned_[i] = true;
    lines.push_back(std::string(notice_text(kNotices[i])) +
                    " (further ones are only counted, in result.json)");
  }
  return lines;
}

nlohmann::json NoticeLog::to_json() const {
  nlohmann::json out = nlohmann::json::object();
  for (const Notice notice : kNotices) out[notice_name(notice)] = count(notice);
  return out;
}

}  // namespace cbwc
