#include "core/kernels/layer_norm.h"

#include "core/kernels/cpu/norm_rows.h"

namespace cbwc::cpu {
namespace {

template <class A>
A reciprocal_deviation(A squares, int64_t cols, double eps) {
  // Rounding may leave a tiny negative sum; a NaN must stay one.
  squares = squares < A(0) ? A(0) : squares;
  return A(1) / std::sqrt(squares / static_cast<A>(cols) + static_cast<A>(eps));
}

// Mean and sum of squared deviations of R rows, in two passes. The second also sums the deviations,
// which takes the rounding of the first pass's mean out again: a constant row then gives exactly
// beta.
template <int R, class T>
void row_moments(const T* x, const T* next, int64_t n, T* mean, T* squares) {
  Vector<T> s[kChains * R] = {};
  for_vectors<T>(n, [&](int64_t i, auto u, auto count) {
    unrolled<R>([&](auto k) { s[u * R + k] += load(x + k * n + i, count); });
  });
  add_chains<R, T>(s, mean);
  for (int k = 0; k < R; ++k) mean[k] /= static_cast<T>(n);
  Vector<T> d[kChains * R] = {}, q[kChains * R] = {}, ones = {};
  ones += T(1);
  for_vectors<T>(n, [&](int64_t i, auto u, auto count) {
    unrolled<R>([&](auto k) {
      Vector<T> v = load(x + k * n + i, count) - mean[k];
      if constexpr (!std::is_same_v<decltype(count), Whole>) v *= load<T>(&ones[0], count);
      d[u * R + k] += v;
      __builtin_prefetch(next + k * n + i);
      q[u * R + k] += v * v;
    });
  });
  T deviation[R];
  add_chains<R, T>(d, deviation);
  add_chains<R, T>(q, squares);
  for (int k = 0; k < R; ++k) {
    const T shift = deviation[k] / static_cast<T>(n);
    mean[k] += shift;
    squares[k] -= shift * deviation[k];
  }
}

template <class T>
void forward_row_in_double(const LayerNormForward<T>& a, const T* gamma, const T* beta, int64_t r,
                           T* y) {
  const T* x = a.x + r * a.cols;
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < a.cols; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(a.cols);
  for (int64_t i = 0; i < a.cols; ++i) {
    const double v = static_cast<double>(x[i]) - mean;
    squares += v * v;
  }
  const double rstd = reciprocal_deviation(squares, a.cols, a.eps);
  a.mean[r] = static_cast<T>(mean);
  a.rstd[r] = static_cast<T>(rstd);
  for (int64_t i = 0; i < a.cols; ++i)
    y[i] =
        static_cast<T>((static_cast<double>(x[i]) - mean) * rstd * static_cast<double>(gamma[i]) +
                       static_cast<double>(beta[i]));
}

// y = gamma * (x - mean) * rstd + beta, for R rows.
template <int R, class T>
void forward_rows(const LayerNormForward<T>& a, const T* gamma, const T* beta, int64_t r, T* y) {
  const int64_t n = a.cols;
  const T* x = a.x + r * n;
  T mean[R], squares[R], rstd[R];
  row_moments<R>(x, next_rows<R>(x, r, a.rows, n), n, mean, squares);
  bool finite = true;
  for (int k = 0; k < R; ++k) finite &= std::isfinite(squares[k]);
  if (sizeof(T) < sizeof(double) && !finite) {
    if constexpr (R == 1) return forward_row_in_double(a, gamma, beta, r, y);
    for (int k = 0; k < R; ++k) forward_rows<1>(a, gamma, beta, r + k, y + k * n);
    return;
  }
  for (int k = 0; k < R; ++k) {
    a.mean[r + k] = mean[k];
    a.rstd[r + k] = rstd[k] = reciprocal_deviation(squares[k], n, a.eps);
  }
  for_vectors<T>(n, [&](int64_t i, auto, auto count) {
    const Vector<T> g = load(gamma + i, count), b = load(beta + i, count);
    unrolled<R>([&](auto k) {
      store<T>(y + k * n + i, (load(x + k * n + i, count) - mean[k]) * rstd[k] * g + b, count);
    });
  });
}

// With h = (x - mean) rstd and g = gamma dy:
//   dx = rstd (g - mean(g) - h mean(g h)),  dgamma = sum over rows of dy h,  dbeta = sum of dy.
template <int R, class T>
void backward_rows(const LayerNormBackward<T>& a, const T* gamma, int64_t r, T* dx, T* dgamma,
                   T* dbeta) {
  const int64_t n = a.cols;
  const T* x = a.x + r * n;
  const T* dy = a.dy + r * n;
  const T* next_x = next_rows<R>(x, r, a.rows, n);
  const T* next_dy = next_rows<R>(dy, r, a.rows, n);
  T mean[R], rstd[R];
  for (int k = 0; k < R; ++k) {
    mean[k] = a.mean[r + k];
    rstd[k] = a.rstd[r + k];
  }
  Vector<T> g[R] = {}, gh[R] = {};
  for_vectors<T>(n, [&](int64_t i, auto, auto count) {
    const Vector<T> w = load(gamma + i, count);
    Vector<T> sum_dyh = load(dgamma + i, count), sum_dy = load(dbeta + i, count);
    unrolled<R>([&](auto k) {
      __builtin_prefetch(next_x + k * n + i);
      const Vector<T> d = load(dy + k * n + i, count),
                      dyh = d * ((load(x + k * n + i, count) - mean[k]) * rstd[k]);
      sum_dy += d;
      sum_dyh += dyh;
      g[k] += w * d;
      gh[k] += w * dyh;
    });
    store<T>(dgamma + i, sum_dyh, count);
    store<T>(dbeta + i, sum_dy, count);
  });
  if (a.dx == nullptr) return;
  T c1[R], c2[R];
  add_lanes<R, T>(g, c1);
  add_lanes<R, T>(gh, c2);
  for (int k = 0; k < R; ++k) {
    c1[k] /= static_cast<T>(n);
    c2[k] = c2[k] / static_cast<T>(n) * rstd[k];
  }
  for_vectors<T>(n, [&](int64_t i, auto, auto count) {
    const Vector<T> w = load(gamma + i, count);
    unrolled<R>([&](auto k) {
      __builtin_prefetch(next_dy + k * n + i);
      store<T>(dx + k * n + i,
               rstd[k] * (w * load(dy + k * n + i, count) - c1[k] -
                          (load(x + k * n + i, count) - mean[k]) * c2[k]),
               count);
    });
  });
}

}  // namespace

template <class T>
void layer_norm_forward(const LayerNormForward<T>& a) {
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
void layer_norm_backward(const LayerNormBackward<T>& a) {
  const OrConstant<T> gamma(a.gamma, a.cols, 1);
  reduce_norm_rows<T>(a.rows, a.cols, a.dx, {a.dgamma, a.accumulate_dgamma},
                      {a.dbeta, a.accumulate_dbeta},
                      [&](auto count, int64_t r, T* dx, T* dgamma, T* dbeta) {
                        backward_rows<count()>(a, gamma.data, r, dx, dgamma, dbeta);
                      });
  // One column is its own mean: no gradient at all, where fused arithmetic leaves a rounding error.
  if (a.cols != 1 || a.dx == nullptr) return;
  for (int64_t r = 0; r < a.rows; ++r) a.dx[r] = (a.x[r] - a.mean[r]) * 0;
}

template void layer_norm_forward<float>(const LayerNormForward<float>&);
template void layer_norm_forward<double>(const LayerNormForward<double>&);
template void layer_norm_backward<float>(const LayerNormBackward<float>&);
template void layer_norm_backward<double>(const LayerNormBackward<double>&);

}  // namespace cbwc::cpu
