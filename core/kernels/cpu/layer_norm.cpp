#include "core/kernels/layer_norm.h"

#include <cmath>

#include "core/kernels/cpu/norm_rows.h"

namespace cbwc::cpu {
namespace {

// y = gamma * (x - mean) * rstd + beta with statistics in A. The second pass also sums the
// deviations, which takes the rounding of the first pass's mean out again. False: A overflowed.
template <class A, class T>
bool forward_row(const LayerNormForward<T>& a, int64_t r) {
  const int64_t n = a.cols;
  const T* x = a.x + r * n;
  T* y = a.y + r * n;
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += static_cast<A>(x[i]);
  const A first = sum / static_cast<A>(n);
  A deviation = 0, squares = 0;
#pragma omp simd reduction(+ : deviation, squares)
  for (int64_t i = 0; i < n; ++i) {
    const A d = static_cast<A>(x[i]) - first;
    deviation += d;
    squares += d * d;
  }
  if (sizeof(A) < sizeof(double) && !std::isfinite(squares)) return false;
  const A shift = deviation / static_cast<A>(n);
  const A mean = first + shift;
  const A var = std::max(squares / static_cast<A>(n) - shift * shift, A(0));
  // max(NaN, 0) above would hide a NaN row.
  const A rstd = squares == squares ? A(1) / std::sqrt(var + static_cast<A>(a.eps)) : squares;
  a.mean[r] = static_cast<T>(mean);
  a.rstd[r] = static_cast<T>(rstd);
  if (a.gamma != nullptr && a.beta != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<T>((static_cast<A>(x[i]) - mean) * rstd * static_cast<A>(a.gamma[i]) +
                            static_cast<A>(a.beta[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const A hat = (static_cast<A>(x[i]) - mean) * rstd;
      const A scaled = a.gamma != nullptr ? hat * static_cast<A>(a.gamma[i]) : hat;
      y[i] = static_cast<T>(a.beta != nullptr ? scaled + static_cast<A>(a.beta[i]) : scaled);
    }
  }
  return true;
}

}  // namespace

template <class T>
void layer_norm_forward(const LayerNormForward<T>& a) {
  parallel_for(a.rows, norm_rows_per_task(a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      if (!forward_row<T>(a, r)) forward_row<double>(a, r);
  });
}

// With h = (x - mean) rstd and g = gamma dy:
//   dx = rstd (g - mean(g) - h mean(g h)),  dgamma = sum over rows of dy h,  dbeta = sum of dy.
template <class T>
void layer_norm_backward(const LayerNormBackward<T>& a) {
  const int64_t n = a.cols;
  reduce_norm_rows<T>(a.rows, n, {a.dgamma, a.accumulate_dgamma}, {a.dbeta, a.accumulate_dbeta},
                      [&](int64_t r, T* dgamma, T* dbeta) {
                        const T* x = a.x + r * n;
                        const T* dy = a.dy + r * n;
                        const T mean = a.mean[r], rstd = a.rstd[r];
                        T sum_g = 0, sum_gh = 0;
                        if (dgamma != nullptr && dbeta != nullptr && a.gamma != nullptr) {
#pragma omp simd reduction(+ : sum_g, sum_gh)
                          for (int64_t i = 0; i < n; ++i) {
                            const T h = (x[i] - mean) * rstd, g = a.gamma[i] * dy[i];
                            sum_g += g;
                            sum_gh += g * h;
                            dgamma[i] += dy[i] * h;
                            dbeta[i] += dy[i];
                          }
                        } else {
                          for (int64_t i = 0; i < n; ++i) {
                            const T h = (x[i] - mean) * rstd;
                            const T g = a.gamma != nullptr ? a.gamma[i] * dy[i] : dy[i];
                            sum_g += g;
                            sum_gh += g * h;
                            if (dgamma != nullptr) dgamma[i] += dy[i] * h;
                            if (dbeta != nullptr) dbeta[i] += dy[i];
                          }
                        }
                        if (a.dx == nullptr) return;
                        T* dx = a.dx + r * n;
                        const T c1 = sum_g / static_cast<T>(n), c2 = sum_gh / static_cast<T>(n);
                        if (a.gamma != nullptr) {
#pragma omp simd
                          for (int64_t i = 0; i < n; ++i)
                            dx[i] = rstd * (a.gamma[i] * dy[i] - c1 - (x[i] - mean) * rstd * c2);
                        } else {
#pragma omp simd
                          for (int64_t i = 0; i < n; ++i)
                            dx[i] = rstd * (dy[i] - c1 - (x[i] - mean) * rstd * c2);
                        }
                      });
}

template void layer_norm_forward<float>(const LayerNormForward<float>&);
template void layer_norm_forward<double>(const LayerNormForward<double>&);
template void layer_norm_backward<float>(const LayerNormBackward<float>&);
template void layer_norm_backward<double>(const LayerNormBackward<double>&);

}  // namespace cbwc::cpu
