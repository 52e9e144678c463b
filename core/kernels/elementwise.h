// Elementwise arithmetic: add, sub and mul of strided operands (stride 0 broadcasts), and the
// contiguous helpers that the tape and the optimisers are made of.
#pragma once
#include "core/dtype.h"

namespace cbwc {

constexpr int kMaxRank = 8;
enum class BinaryKind { add, sub, mul };

template <class T>
struct Binary {
  BinaryKind kind;
  const T* a;
  const T* b;
  T* y;  // may be a or b itself, with the same strides
  int rank;
  int64_t shape[kMaxRank];
  int64_t a_strides[kMaxRank], b_strides[kMaxRank], y_strides[kMaxRank];
};

namespace cpu {
template <class T>
void binary(const Binary<T>& a);
template <class T>
void add_into(T* y, const T* x, int64_t n);  // y += x
template <class T>
void axpy(T* y, double alpha, const T* x, int64_t n);  // y += alpha x
template <class T>
void scale(T* y, double alpha, const T* x, int64_t n);  // y = alpha x; y may be x
}  // namespace cpu
namespace cuda {
template <class T>
void binary(const Binary<T>& a);
template <class T>
void add_into(T* y, const T* x, int64_t n);
template <class T>
void axpy(T* y, double alpha, const T* x, int64_t n);
template <class T>
void scale(T* y, double alpha, const T* x, int64_t n);
}  // namespace cuda

template <class T>
void binary(Device device, const Binary<T>& a) {
  device == Device::cuda ? cuda::binary(a) : cpu::binary(a);
}
template <class T>
void add_into(Device device, T* y, const T* x, int64_t n) {
  device == Device::cuda ? cuda::add_into(y, x, n) : cpu::add_into(y, x, n);
}
template <class T>
void axpy(Device device, T* y, double alpha, const T* x, int64_t n) {
  device == Device::cuda ? cuda::axpy(y, alpha, x, n) : cpu::axpy(y, alpha, x, n);
}
template <class T>
void scale(Device device, T* y, double alpha, const T* x, int64_t n) {
  device == Device::cuda ? cuda::scale(y, alpha, x, n) : cpu::scale(y, alpha, x, n);
}

}  // namespace cbwc
