#include "core/kernels/cpu/rows.h"

#include <string>

#include "core/notices.h"
#include "tests/support/catch.h"

using namespace cbwc;

TEST_CASE("P17: offsets of rows beyond 2^31 and 2^32 are exact, whatever type counts the rows") {
  using cpu::row_offset;
  static_assert(row_offset(524288, 4096) == 2147483648);
  static_assert(row_offset(524289, 4096) == 2147487744);   // 2^31 - 1 = 2147483647
  static_assert(row_offset(1048640, 4096) == 4295229440);  // 2^32 = 4294967296
  static_assert(row_offset(1048641, 4096) == 4295233536);
  static_assert(row_offset(0, 4096) == 0);
  const int32_t row = 1048641, width = 4096;  // run-time 32-bit numbers
  CHECK(row_offset(row, width) == 4295233536);
  CHECK(row_offset(int64_t{1} << 40, 1 << 20) == int64_t{1} << 60);
  // What a 32-bit product would have been: the test can tell.
  CHECK(static_cast<int64_t>(static_cast<uint32_t>(row) * static_cast<uint32_t>(width)) !=
        row_offset(row, width));
  int64_t elements = 0;
  for (int64_t r = 0; r < 1048641; r += cpu::row_grain(4096)) elements = row_offset(r, 4096);
  CHECK(elements == row_offset(1048640, 4096));
}

TEST_CASE("Notices are counted one by one") {
  for (const Notice notice : kNotices) {
    const int64_t before = notice_count(notice);
    count_notice(notice);
    count_notice(notice, 4);
    CHECK(notice_count(notice) == before + 5);
    CHECK(std::string(notice_text(notice)).find("gradient") != std::string::npos);
  }
  CHECK(std::string(notice_name(kNotices[0])) != notice_name(kNotices[1]));
}
