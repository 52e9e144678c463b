// Dropout with a counter-based mask that is never stored: y = x / (1 - p) where kept, else 0. One
// draw for `group` neighbouring elements; draw i is word i % 4 of Philox block first_block + i / 4,
// and the group is kept when unit_float(word) >= p. The backward is the same call on dy.
#pragma once
#include "core/dtype.h"

namespace cbwc {

template <class T>
struct Dropout {
  const T* x;     // (n)
  T* y;           // (n); may be x
  int64_t n;      // a multiple of group
  int64_t group;  // 1: element-wise
  double p;       // in [0, 1]
  uint64_t key, first_block;
};

inline int64_t dropout_blocks(int64_t draws) { return (draws + 3) / 4; }

namespace cpu {
template <class T>
void dropout(const Dropout<T>& a);
}  // namespace cpu

}  // namespace cbwc
