// Softmax over the last axis. A row that is all -inf gives zeros and a zero gradient (cases.md
// P49).
#pragma once
#include "core/dtype.h"

namespace cbwc {

template <class T>
struct SoftmaxForward {
  const T* x;  // (rows, cols)
  T* y;        // (rows, cols); may be x
  int64_t rows, cols;
};

template <class T>
struct SoftmaxBackward {
  const T* dy;  // (rows, cols)
  const T* y;   // (rows, cols), the forward's result
  T* dx;        // (rows, cols), written
  int64_t rows, cols;
};

namespace cpu {
template <class T>
void softmax_forward(const SoftmaxForward<T>& a);
template <class T>
void softmax_backward(const SoftmaxBackward<T>& a);
}  // namespace cpu

}  // namespace cbwc
