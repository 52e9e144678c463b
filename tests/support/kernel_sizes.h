// The widths and row counts at which kernels of comparable systems went wrong (cases.md, rule 3).
#pragma once
#include <cstdint>
#include <vector>

namespace cbwc::testing {

inline const std::vector<int64_t> kNarrow{1, 2, 3, 4, 5, 6, 7, 8, 9};
inline const std::vector<int64_t> kWide{31,  32,  33,  63,   64,   65,  127,
                                        128, 129, 769, 1000, 1025, 3420};
inline const std::vector<int64_t> kFew{0, 1, 31, 33}, kMany{1023, 1025},
    kVeryMany{65535, 65536, 65537};

// f(rows, cols) for all of them; the very many rows with narrow widths only.
template <class F>
void for_kernel_sizes(const F& f) {
  for (const std::vector<int64_t>& rows : {kFew, kMany})
    for (const int64_t r : rows)
      for (const std::vector<int64_t>& widths : {kNarrow, kWide})
        for (const int64_t c : widths) f(r, c);
  for (const int64_t r : kVeryMany)
    for (const int64_t c : kNarrow) f(r, c);
}

}  // namespace cbwc::testing
