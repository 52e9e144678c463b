#include "core/kernels/cross_entropy.h"

#include <algorithm>

#include "core/kernels/cpu/rows.h"
#include "core/kernels/cpu/vector_math.h"
#include "core/parallel.h"

namespace cbwc::cpu {
namespace {
template <class T>
T log_sum_exp(const T* z, int64_t cols) {
  const T m = largest(z, cols);
  const double sum = sum_in_pieces(z, cols, [m](const T* x, int64_t n) {
    const T base = m;
    T s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < n; ++j) s += vexp(x[j] - base);
    return s;
  });
  return m + static_cast<T>(std::log(sum));
}

template <class T>
double mean_logit(const T* z, int64_t cols) {
  const double sum = sum_in_pieces(z, cols, [](const T* x, int64_t n) {
    T s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < n; ++j) s += x[j];
    return s;
  });
  return sum / static_cast<double>(cols);
}
}  // namespace

// loss = lse - (1 - s) z[target] - s mean(z)
template <class T, class I>
void cross_entropy_forward(const CrossEntropyForward<T, I>& a) {
  parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      a.lse[r] = 0;
      a.loss[r] = 0;
      if (a.targets[r] == a.ignore_index) continue;
      const T* z = a.logits + row_offset(r, a.cols);
      a.lse[r] = log_sum_exp(z, a.cols);
      // Differences first: with logits of 1000 the terms cancel.
      const double lse = a.lse[r], s = a.label_smoothing;
      a.loss[r] = (1 - s) * (lse - static_cast<double>(z[a.targets[r]]));
      if (s > 0) a.loss[r] += s * (lse - mean_logit(z, a.cols));
    }
  });
}

// dz[j] = g (exp(z[j] - lse) - s / cols - (1 - s) [j = target])
template <class T, class I>
void cross_entropy_backward(const CrossEntropyBackward<T, I>& a) {
  const T g = static_cast<T>(a.dloss);
  const T spread = static_cast<T>(a.dloss * a.label_smoothing / static_cast<double>(a.cols));
  const T peak = static_cast<T>(a.dloss * (1 - a.label_smoothing));
  parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* z = a.logits + row_offset(r, a.cols);
      T* dz = a.dlogits + row_offset(r, a.cols);
      if (a.targets[r] == a.ignore_index) {
        std::fill(dz, dz + a.cols, T(0));
        continue;
      }
      const T lse = a.lse[r];
      const T factor = g, shift = spread;  // captured values would be loaded again per element
      const int64_t cols = a.cols;
#pragma omp simd
      for (int64_t j = 0; j < cols; ++j) dz[j] = factor * vexp(z[j] - lse) - shift;
      dz[a.targets[r]] -= peak;
    }
  });
}

#define CBWC_INSTANTIATE(T, I)                                           \
  template void cross_entropy_forward(const CrossEntropyForward<T, I>&); \
  template void cross_entropy_backward(const CrossEntropyBackward<T, I>&);
CBWC_INSTANTIATE(float, int32_t)
CBWC_INSTANTIATE(float, int64_t)
CBWC_INSTANTIATE(double, int32_t)
CBWC_INSTANTIATE(double, int64_t)
#undef CBWC_INSTANTIATE

}  // namespace cbwc::cpu
