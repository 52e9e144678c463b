// LayerNorm over the last axis: y = gamma * (x - mean) * rstd + beta, rstd = 1/sqrt(var + eps)
// (method.md 1). Statistics by two passes in at least float32; a float32 row whose sum of squares
// overflows is redone in double.
#pragma once
#include "core/dtype.h"

namespace cbwc {

template <class T>
struct LayerNormForward {
  const T* x;      // (rows, cols)
  const T* gamma;  // (cols) or null: ones
  const T* beta;   // (cols) or null: zeros
  T* y;            // (rows, cols)
  T* mean;         // (rows)
  T* rstd;         // (rows)
  int64_t rows, cols;
  double eps;
};

template <class T>
struct LayerNormBackward {
  const T* dy;     // (rows, cols)
  const T* x;      // (rows, cols)
  const T* gamma;  // (cols) or null
  const T* mean;   // (rows)
  const T* rstd;   // (rows)
  T* dx;           // (rows, cols), written; null: not wanted
  T* dgamma;       // (cols), added to or written as `accumulate` says; null: not wanted
  T* dbeta;        // (cols), likewise
  bool accumulate_dgamma, accumulate_dbeta;
  int64_t rows, cols;
};

namespace cpu {
template <class T>
void layer_norm_forward(const LayerNormForward<T>& a);
template <class T>
void layer_norm_backward(const LayerNormBackward<T>& a);
}  // namespace cpu
namespace cuda {
template <class T>
void layer_norm_forward(const LayerNormForward<T>& a);
template <class T>
void layer_norm_backward(const LayerNormBackward<T>& a);
}  // namespace cuda

template <class T>
void layer_norm_forward(Device device, const LayerNormForward<T>& a) {
  device == Device::cuda ? cuda::layer_norm_forward(a) : cpu::layer_norm_forward(a);
}
template <class T>
void layer_norm_backward(Device device, const LayerNormBackward<T>& a) {
  device == Device::cuda ? cuda::layer_norm_backward(a) : cpu::layer_norm_backward(a);
}

}  // namespace cbwc
