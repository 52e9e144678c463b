// The centring projector P = I - (1/n) 1 1^T along one axis (method.md 2): y = x - mean(x). It is
// symmetric, so its backward is itself.
#pragma once
#include "core/dtype.h"

namespace cbwc {

template <class T>
struct Centering {
  const T* x;  // (outer, n, inner)
  T* y;        // (outer, n, inner); may be x
  int64_t outer, n, inner;
  bool accumulate = false;  // y += P x instead of y = P x
};

namespace cpu {
template <class T>
void center(const Centering<T>& a);
}

}  // namespace cbwc
