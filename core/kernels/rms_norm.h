// RMSNorm over the last axis: y = gamma * x * rstd + beta, rstd = 1/sqrt(mean(x^2) + eps), eps
// inside the root (method.md 1). A float32 row whose sum of squares overflows is redone in double.
#pragma once
#include "core/dtype.h"

namespace cbwc {

template <class T>
struct RmsNormForward {
  const T* x;      // (rows, cols)
  const T* gamma;  // (cols) or null: ones
  const T* beta;   // (cols) or null: zeros
  T* y;            // (rows, cols)
  T* rstd;         // (rows)
  int64_t rows, cols;
  double eps;
};

template <class T>
struct RmsNormBackward {
  const T* dy;     // (rows, cols)
  const T* x;      // (rows, cols)
  const T* gamma;  // (cols) or null
  const T* rstd;   // (rows)
  T* dx;           // (rows, cols), written; null: not wanted
  T* dgamma;       // (cols), added to or written as `accumulate` says; null: not wanted
  T* dbeta;        // (cols), likewise
  bool accumulate_dgamma, accumulate_dbeta;
  int64_t rows, cols;
};

namespace cpu {
template <class T>
void rms_norm_forward(const RmsNormForward<T>& a);
template <class T>
void rms_norm_backward(const RmsNormBackward<T>& a);
}  // namespace cpu
namespace cuda {
template <class T>
void rms_norm_forward(const RmsNormForward<T>& a);
template <class T>
void rms_norm_backward(const RmsNormBackward<T>& a);
}  // namespace cuda

template <class T>
void rms_norm_forward(Device device, const RmsNormForward<T>& a) {
  device == Device::cuda ? cuda::rms_norm_forward(a) : cpu::rms_norm_forward(a);
}
template <class T>
void rms_norm_backward(Device device, const RmsNormBackward<T>& a) {
  device == Device::cuda ? cuda::rms_norm_backward(a) : cpu::rms_norm_backward(a);
}

}  // namespace cbwc
