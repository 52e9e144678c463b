#include "core/kernels/rms_norm.h"

#include <cmath>

#include "core/kernels/cpu/norm_rows.h"

namespace cbwc::cpu {
namespace {

// y = gamma * x * rstd + beta with the sum of squares in A. False: A overflowed.
template <class A, class T>
bool forward_row(const RmsNormForward<T>& a, int64_t r) {
  const int64_t n = a.cols;
  const T* x = a.x + r * n;
  T* y = a.y + r * n;
  A squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < n; ++i) squares += static_cast<A>(x[i]) * static_cast<A>(x[i]);
  if (sizeof(A) < sizeof(double) && !std::isfinite(squares)) return false;
  const A rstd = A(1) / std::sqrt(squares / static_cast<A>(n) + static_cast<A>(a.eps));
  a.rstd[r] = static_cast<T>(rstd);
  if (a.gamma != nullptr && a.beta != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<T>(static_cast<A>(x[i]) * rstd * static_cast<A>(a.gamma[i]) +
                            static_cast<A>(a.beta[i]));
  } else if (a.gamma != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<T>(static_cast<A>(x[i]) * rstd * static_cast<A>(a.gamma[i]));
  } else {
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<T>(static_cast<A>(x[i]) * rstd +
                            (a.beta != nullptr ? static_cast<A>(a.beta[i]) : A(0)));
  }
  return true;
}

}  // namespace

template <class T>
void rms_norm_forward(const RmsNormForward<T>& a) {
  parallel_for(a.rows, norm_rows_per_task(a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      if (!forward_row<T>(a, r)) forward_row<double>(a, r);
  });
}

// With h = x rstd and g = gamma dy:
//   dx = rstd (g - h mean(g h)),  dgamma = sum over rows of dy h,  dbeta = sum of dy.
template <class T>
void rms_norm_backward(const RmsNormBackward<T>& a) {
  const int64_t n = a.cols;
  reduce_norm_rows<T>(a.rows, n, {a.dgamma, a.accumulate_dgamma}, {a.dbeta, a.accumulate_dbeta},
                      [&](int64_t r, T* dgamma, T* dbeta) {
                        const T* x = a.x + r * n;
                        const T* dy = a.dy + r * n;
                        const T rstd = a.rstd[r];
                        T sum_gh = 0;
                        if (dgamma != nullptr && a.gamma != nullptr) {
#pragma omp simd reduction(+ : sum_gh)
                          for (int64_t i = 0; i < n; ++i) {
                            const T dyh = dy[i] * (x[i] * rstd);
                            sum_gh += a.gamma[i] * dyh;
                            dgamma[i] += dyh;
                          }
                        } else {
                          for (int64_t i = 0; i < n; ++i) {
                            const T dyh = dy[i] * (x[i] * rstd);
                            sum_gh += a.gamma != nullptr ? a.gamma[i] * dyh : dyh;
                            if (dgamma != nullptr) dgamma[i] += dyh;
                          }
                        }
                        if (dbeta != nullptr) {
#pragma omp simd
                          for (int64_t i = 0; i < n; ++i) dbeta[i] += dy[i];
                        }
                        if (a.dx == nullptr) return;
                        T* dx = a.dx + r * n;
                        const T c = sum_gh / static_cast<T>(n);
                        if (a.gamma != nullptr) {
#pragma omp simd
                          for (int64_t i = 0; i < n; ++i)
                            dx[i] = rstd * (a.gamma[i] * dy[i] - x[i] * rstd * c);
                        } else {
#pragma omp simd
                          for (int64_t i = 0; i < n; ++i) dx[i] = rstd * (dy[i] - x[i] * rstd * c);
                        }
                      });
}

template void rms_norm_forward<float>(const RmsNormForward<float>&);
template void rms_norm_forward<double>(const RmsNormForward<double>&);
template void rms_norm_backward<float>(const RmsNormBackward<float>&);
template void rms_norm_backward<double>(const RmsNormBackward<double>&);

}  // namespace cbwc::cpu
