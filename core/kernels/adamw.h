// Optimiser kernels over flat buffers: one pass for the sum of squares, one that scales and
// updates. AdamW: Loshchilov and Hutter 2019; eps is added after the bias correction (cases.md
// P56).
#pragma once
#include "core/dtype.h"

namespace cbwc {

// g = grad_scale grad; m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g^2;
// p = (1 - lr decay) p - lr (m / correction1) / (sqrt(v / correction2) + eps)
template <class T>
struct AdamWUpdate {
  T* p;           // (n)
  const T* grad;  // (n)
  T* m;           // (n)
  T* v;           // (n)
  int64_t n;
  double lr, beta1, beta2, eps, decay, grad_scale;
  double correction1, correction2;  // 1 - beta^step
};

// g = grad_scale grad + decay p; b = momentum b + g; p -= lr (nesterov ? g + momentum b : b)
template <class T>
struct SgdUpdate {
  T* p;           // (n)
  const T* grad;  // (n)
  T* b;           // (n) or null when momentum is 0
  int64_t n;
  double lr, momentum, decay, grad_scale;
  bool nesterov;
};

namespace cpu {
template <class T>
void adamw_update(const AdamWUpdate<T>& a);
template <class T>
void sgd_update(const SgdUpdate<T>& a);
template <class T>
double sum_of_squares(const T* x, int64_t n);  // the same bits for any thread count
}  // namespace cpu
namespace cuda {
template <class T>
void adamw_update(const AdamWUpdate<T>& a);
template <class T>
void sgd_update(const SgdUpdate<T>& a);
template <class T>
double sum_of_squares(const T* x, int64_t n);
}  // namespace cuda

template <class T>
void adamw_update(Device device, const AdamWUpdate<T>& a) {
  device == Device::cuda ? cuda::adamw_update(a) : cpu::adamw_update(a);
}
template <class T>
void sgd_update(Device device, const SgdUpdate<T>& a) {
  device == Device::cuda ? cuda::sgd_update(a) : cpu::sgd_update(a);
}
template <class T>
double sum_of_squares(Device device, const T* x, int64_t n) {
  return device == Device::cuda ? cuda::sum_of_squares(x, n) : cpu::sum_of_squares(x, n);
}

}  // namespace cbwc
