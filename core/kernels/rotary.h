// Rotary positions: of each head's D channels the first `channels` turn in pairs (c, c + channels /
// 2), the pair of the token at position p by the angle p / base^(2 c / channels):
//   y1 = x1 cos - x2 sin,  y2 = x2 cos + x1 sin;  the others stay.
// The backward is the same call on dy with `inverse`, which turns back.
#pragma once
#include "core/dtype.h"

namespace cbwc {

template <class T>
struct Rotary {
  const T* x;  // (B, T, H, D)
  T* y;        // likewise; may be x
  int64_t batch, tokens, heads, D;
  int64_t channels;  // even, at most D
  int64_t first;     // position of token 0
  double base;
  bool inverse;
};

namespace cpu {
template <class T>
void rotary(const Rotary<T>& a);
}  // namespace cpu

}  // namespace cbwc
