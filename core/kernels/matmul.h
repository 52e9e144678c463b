// Batched matrix product C = op(A) op(B) (+ C), row-major, equal strides between the matrices of a
// batch.
#pragma once
#include "core/dtype.h"

namespace cbwc {

template <class T>
struct Matmul {
  const T* a;  // batch x (m, k), or (k, m) when transpose_a
  const T* b;  // batch x (k, n), or (n, k) when transpose_b
  T* c;        // batch x (m, n)
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements; 0 = the same matrix for all
  bool accumulate = false;                           // add to C instead of writing it
};

namespace cpu {
template <class T>
void matmul(const Matmul<T>& a);
}
namespace cuda {
template <class T>
void matmul(const Matmul<T>& a);
}

template <class T>
void matmul(Device device, const Matmul<T>& a) {
  device == Device::cuda ? cuda::matmul(a) : cpu::matmul(a);
}

}  // namespace cbwc
