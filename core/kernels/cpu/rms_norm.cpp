#include "core/kernels/rms_norm.h"

#include "core/kernels/cpu/norm_rows.h"

namespace cbwc::cpu {
namespace {

template <class T>
void forward_row_in_double(const RmsNormForward<T>& a, const T* gamma, const T* beta, int64_t r,
                           T* y) {
  const T* x = a.x + r * a.cols;
  double squares = 0;
  for (int64_t i = 0; i < a.cols; ++i)
    squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(a.cols) + a.eps);
  a.rstd[r] = static_cast<T>(rstd);
  for (int64_t i = 0; i < a.cols; ++i)
    y[i] = static_cast<T>(static_cast<double>(x[i]) * rstd * static_cast<double>(gamma[i]) +
                          static_cast<double>(beta[i]));
}

// y = gamma * x * rstd + beta, for R rows.
template <int R, class T>
void forward_rows(const RmsNormForward<T>& a, const T* gamma, const T* beta, int64_t r, T* y) {
  const int64_t n = a.cols;
  const T* x = a.x + r * n;
  const T* next = next_rows<R>(x, r, a.rows, n);
  Vector<T> q[kChains * R] = {};
  for_vectors<T>(n, [&](int64_t i, auto u, auto count) {
    unrolled<R>([&](auto k) {
      const Vector<T> v = load(x + k * n + i, count);
      q[u * R + k] += v * v;
    });
  });
  T squares[R], rstd[R];
  add_chains<R, T>(q, squares);
  bool finite = true;
  for (int k = 0; k < R; ++k) finite &= std::isfinite(squares[k]);
  if (sizeof(T) < sizeof(double) && !finite) {
    if constexpr (R == 1) return forward_row_in_double(a, gamma, beta, r, y);
    for (int k = 0; k < R; ++k) forward_rows<1>(a, gamma, beta, r + k, y + k * n);
    return;
  }
  for (int k = 0; k < R; ++k)
    a.rstd[r + k] = rstd[k] =
        T(1) / std::sqrt(squares[k] / static_cast<T>(n) + static_cast<T>(a.eps));
  for_vectors<T>(n, [&](int64_t i, auto, auto count) {
    const Vector<T> g = load(gamma + i, count), b = load(beta + i, count);
    unrolled<R>([&](auto k) {
      __builtin_prefetch(next + k * n + i);
      store<T>(y + k * n + i, load(x + k * n + i, count) * rstd[k] * g + b, count);
    });
  });
}

// With h = x rstd and g = gamma dy:
//   dx = rstd (g - h mean(g h)),  dgamma = sum over rows of dy h,  dbeta = sum of dy.
template <int R, bool kBeta, class T>
void backward_rows(const RmsNormBackward<T>& a, const T* gamma, int64_t r, T* dx, T* dgamma,
                   T* dbeta) {
  const int64_t n = a.cols;
  const T* x = a.x + r * n;
  const T* dy = a.dy + r * n;
  const T* next_x = next_rows<R>(x, r, a.rows, n);
  const T* next_dy = next_rows<R>(dy, r, a.rows, n);
  T rstd[R], c[R];
  for (int k = 0; k < R; ++k) rstd[k] = a.rstd[r + k];
  Vector<T> gh[R] = {};
  for_vectors<T>(n, [&](int64_t i, auto, auto count) {
    const Vector<T> w = load(gamma + i, count);
    Vector<T> sum_dyh = load(dgamma + i, count), sum_dy = {};
    if constexpr (kBeta) sum_dy = load(dbeta + i, count);
    unrolled<R>([&](auto k) {
      __builtin_prefetch(next_x + k * n + i);
      const Vector<T> d = load(dy + k * n + i, count),
                      dyh = d * (load(x + k * n + i, count) * rstd[k]);
      if constexpr (kBeta) sum_dy += d;
      sum_dyh += dyh;
      gh[k] += w * dyh;
    });
    store<T>(dgamma + i, sum_dyh, count);
    if constexpr (kBeta) store<T>(dbeta + i, sum_dy, count);
  });
  if (a.dx == nullptr) return;
  add_lanes<R, T>(gh, c);
  for (int k = 0; k < R; ++k) c[k] = c[k] / static_cast<T>(n) * rstd[k];
  for_vectors<T>(n, [&](int64_t i, auto, auto count) {
    const Vector<T> w = load(gamma + i, count);
    unrolled<R>([&](auto k) {
      __builtin_prefetch(next_dy + k * n + i);
      store<T>(dx + k * n + i,
               rstd[k] * (w * load(dy + k * n + i, count) - load(x + k * n + i, count) * c[k]),
               count);
    });
  });
}

}  // namespace

template <class T>
void rms_norm_forward(const RmsNormForward<T>& a) {
  const OrConstant<T> gamma(a.gamma, a.cols, 1), beta(a.beta, a.cols, 0);
  const bool streamed = is_streamed(a.y, a.rows, a.cols * static_cast<int64_t>(sizeof(T)));
  parallel_for(a.rows, norm_rows_per_task(a.cols), [&](int64_t begin, int64_t end) {
    for_row_groups<kForwardBytes>(begin, end, a.cols, a.y, streamed,
                                  [&](auto count, int64_t r, T* y) {
                                    forward_rows<count()>(a, gamma.data, beta.data, r, y);
                                  });
  });
}

template <class T>
void rms_norm_backward(const RmsNormBackward<T>& a) {
  const OrConstant<T> gamma(a.gamma, a.cols, 1);
  reduce_norm_rows<T>(a.rows, a.cols, a.dx, {a.dgamma, a.accumulate_dgamma},
                      {a.dbeta, a.accumulate_dbeta},
                      [&](auto count, int64_t r, T* dx, T* dgamma, T* dbeta) {
                        if (a.dbeta != nullptr) {
                          backward_rows<count(), true>(a, gamma.data, r, dx, dgamma, dbeta);
                        } else {
                          backward_rows<count(), false>(a, gamma.data, r, dx, dgamma, dbeta);
                        }
                      });
}

template void rms_norm_forward<float>(const RmsNormForward<float>&);
template void rms_norm_forward<double>(const RmsNormForward<double>&);
template void rms_norm_backward<float>(const RmsNormBackward<float>&);
template void rms_norm_backward<double>(const RmsNormBackward<double>&);

}  // namespace cbwc::cpu
