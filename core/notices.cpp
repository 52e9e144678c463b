#include "core/notices.h"

#include <atomic>

namespace cbwc {
namespace {

std::array<std::atomic<int64_t>, kNotices.size()> counts{};

std::atomic<int64_t>& counter(Notice notice) { return counts[static_cast<size_t>(notice)]; }

}  // namespace

const char* notice_name(Notice notice) {
  return notice == Notice::all_targets_ignored ? "all_targets_ignored" : "masked_attention_row";
}

const char* notice_text(Notice notice) {
  return notice == Notice::all_targets_ignored
             ? "every target of a batch is ignored: its loss and gradient are 0"
             : "a query of an attention sees no key: its output and gradient are 0";
}

void count_notice(Notice notice, int64_t times) { counter(notice) += times; }
int64_t notice_count(Notice notice) { return counter(notice); }

}  // namespace cbwc
