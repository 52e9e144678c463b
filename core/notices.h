// What is allowed but must not pass unseen (cases.md, decision 1). Libraries print nothing: they
// count, and the program warns once for each kind and reports how often it happened.
#pragma once
#include <array>
#include <cstdint>

namespace cbwc {

enum class Notice { all_targets_ignored, masked_attention_row };
inline constexpr std::array kNotices = {Notice::all_targets_ignored, Notice::masked_attention_row};

const char* notice_name(Notice notice);  // "all_targets_ignored"
const char* notice_text(Notice notice);  // what happened and what was done, for a warning
void count_notice(Notice notice, int64_t times = 1);  // from any thread
int64_t notice_count(Notice notice);                  // since the process started

}  // namespace cbwc
