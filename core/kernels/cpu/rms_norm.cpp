#include "core/kernels/rms_norm.h"

#include <cmath>

#include "core/kernels/cpu/norm_rows.h"

namespace cbwc::cpu {
namespace {

template <class T>
T row_squares(const T* x, int64_t n) {
  constexpr int64_t L = kLanes<T>;
  Vector<T> q[4] = {};
  int64_t i = 0;
  for (; i + 4 * L <= n; i += 4 * L)
    for (int k = 0; k < 4; ++k) {
      const Vector<T> v = load(x + i + k * L);
      q[k] += v * v;
    }
  T squares = add_lanes<T>(q[0] + q[1] + (q[2] + q[3]));
  for (; i < n; ++i) squares += x[i] * x[i];
  return squares;
}

// y = gamma * x * rstd + beta
template <class T>
void forward_row(const RmsNormForward<T>& a, const T* gamma, const T* beta, int64_t r) {
  constexpr int64_t L = kLanes<T>;
  const int64_t n = a.cols;
  const T* x = a.x + r * n;
  T* y = a.y + r * n;
  const T squares = row_squares(x, n);
  if (sizeof(T) < sizeof(double) && !std::isfinite(squares)) {
    double wide = 0;
    for (int64_t i = 0; i < n; ++i) wide += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    const double rstd = 1.0 / std::sqrt(wide / static_cast<double>(n) + a.eps);
    a.rstd[r] = static_cast<T>(rstd);
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<T>(static_cast<double>(x[i]) * rstd * static_cast<double>(gamma[i]) +
                            static_cast<double>(beta[i]));
    return;
  }
  const T rstd = T(1) / std::sqrt(squares / static_cast<T>(n) + static_cast<T>(a.eps));
  a.rstd[r] = rstd;
  int64_t i = 0;
  for (; i + L <= n; i += L) store<T>(y + i, load(x + i) * rstd * load(gamma + i) + load(beta + i));
  for (; i < n; ++i) y[i] = x[i] * rstd * gamma[i] + beta[i];
}

// With h = x rstd and g = gamma dy:
//   dx = rstd (g - h mean(g h)),  dgamma = sum over rows of dy h,  dbeta = sum of dy.
// R rows at once, so that gamma and the partial sums are read once for all of them.
template <int R, bool kBeta, class T>
void backward_rows(const RmsNormBackward<T>& a, const T* gamma, int64_t r, T* dgamma, T* dbeta) {
  constexpr int64_t L = kLanes<T>;
  const int64_t n = a.cols;
  const T* x = a.x + r * n;
  const T* dy = a.dy + r * n;
  const T* rstd = a.rstd + r;
  Vector<T> gh[R] = {};
  int64_t i = 0;
  for (; i + L <= n; i += L) {
    const Vector<T> w = load(gamma + i);
    Vector<T> sum_dyh = load(dgamma + i), sum_dy = {};
    for (int k = 0; k < R; ++k) {
      const Vector<T> d = load(dy + k * n + i), dyh = d * (load(x + k * n + i) * rstd[k]);
      if constexpr (kBeta) sum_dy += d;
      sum_dyh += dyh;
      gh[k] += w * dyh;
    }
    store<T>(dgamma + i, sum_dyh);
    if constexpr (kBeta) store<T>(dbeta + i, load(dbeta + i) + sum_dy);
  }
  T c[R];
  for (int k = 0; k < R; ++k) c[k] = add_lanes<T>(gh[k]);
  for (int64_t j = i; j < n; ++j)
    for (int k = 0; k < R; ++k) {
      const T d = dy[k * n + j], dyh = d * (x[k * n + j] * rstd[k]);
      dbeta[j] += d;
      dgamma[j] += dyh;
      c[k] += gamma[j] * dyh;
    }
  if (a.dx == nullptr) return;
  for (int k = 0; k < R; ++k) {
    T* dx = a.dx + (r + k) * n;
    const T *xk = x + k * n, *dk = dy + k * n;
    const T s = rstd[k], m = c[k] / static_cast<T>(n);
    for (i = 0; i + L <= n; i += L)
      store<T>(dx + i, s * (load(gamma + i) * load(dk + i) - load(xk + i) * s * m));
    for (; i < n; ++i) dx[i] = s * (gamma[i] * dk[i] - xk[i] * s * m);
  }
}

}  // namespace

template <class T>
void rms_norm_forward(const RmsNormForward<T>& a) {
  const OrConstant<T> gamma(a.gamma, a.cols, 1), beta(a.beta, a.cols, 0);
  parallel_for(a.rows, norm_rows_per_task(a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) forward_row(a, gamma.data, beta.data, r);
  });
}

template <class T>
void rms_norm_backward(const RmsNormBackward<T>& a) {
  const OrConstant<T> gamma(a.gamma, a.cols, 1);
  reduce_norm_rows<T>(
      a.rows, a.cols, {a.dgamma, a.accumulate_dgamma}, {a.dbeta, a.accumulate_dbeta},
      [&](int64_t r, int64_t count, T* dgamma, T* dbeta) {
        if (a.dbeta != nullptr) {
          count == kRowGroup ? backward_rows<kRowGroup, true>(a, gamma.data, r, dgamma, dbeta)
                             : backward_rows<1, true>(a, gamma.data, r, dgamma, dbeta);
        } else {
          count == kRowGroup ? backward_rows<kRowGroup, false>(a, gamma.data, r, dgamma, dbeta)
                             : backward_rows<1, false>(a, gamma.data, r, dgamma, dbeta);
        }
      });
}

template void rms_norm_forward<float>(const RmsNormForward<float>&);
template void rms_norm_forward<double>(const RmsNormForward<double>&);
template void rms_norm_backward<float>(const RmsNormBackward<float>&);
template void rms_norm_backward<double>(const RmsNormBackward<double>&);

}  // namespace cbwc::cpu
