// Reductions of the middle axis of x (outer, n, inner), in double, in an order that depends on the
// shape only. max propagates NaN; ties share its gradient evenly; the norm's gradient at 0 is 0
// (cases.md, decision 2).
#pragma once
#include "core/dtype.h"

namespace cbwc {

enum class ReduceKind { sum, mean, max, norm };

template <class T>
struct ReduceForward {
  ReduceKind kind;
  const T* x;  // (outer, n, inner)
  T* y;        // (outer, inner)
  int64_t outer, n, inner;
};

template <class T>
struct ReduceBackward {
  ReduceKind kind;
  const T* dy;  // (outer, inner)
  const T* x;   // (outer, n, inner); max and norm only
  const T* y;   // (outer, inner); max and norm only
  T* dx;        // (outer, n, inner), written
  int64_t outer, n, inner;
};

namespace cpu {
template <class T>
void reduce_forward(const ReduceForward<T>& a);
template <class T>
void reduce_backward(const ReduceBackward<T>& a);
}  // namespace cpu
namespace cuda {
template <class T>
void reduce_forward(const ReduceForward<T>& a);
template <class T>
void reduce_backward(const ReduceBackward<T>& a);
}  // namespace cuda

template <class T>
void reduce_forward(Device device, const ReduceForward<T>& a) {
  device == Device::cuda ? cuda::reduce_forward(a) : cpu::reduce_forward(a);
}
template <class T>
void reduce_backward(Device device, const ReduceBackward<T>& a) {
  device == Device::cuda ? cuda::reduce_backward(a) : cpu::reduce_backward(a);
}

}  // namespace cbwc
