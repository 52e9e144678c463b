#include "core/kernels/layer_norm.h"

#include <cmath>

#include "core/kernels/cpu/norm_rows.h"

namespace cbwc::cpu {
namespace {

template <class A>
struct Moments {
  A mean, squares;  // of the row; sum of squared deviations from the mean
};

// Two passes. The second also sums the deviations, which takes the rounding of the first pass's
// mean out again: a constant row then gives exactly beta.
template <class T>
Moments<T> row_moments(const T* x, int64_t n) {
  constexpr int64_t L = kLanes<T>;
  Vector<T> s[4] = {};
  int64_t i = 0;
  for (; i + 4 * L <= n; i += 4 * L)
    for (int k = 0; k < 4; ++k) s[k] += load(x + i + k * L);
  T sum = add_lanes<T>(s[0] + s[1] + (s[2] + s[3]));
  for (; i < n; ++i) sum += x[i];
  const T first = sum / static_cast<T>(n);
  Vector<T> d[4] = {}, q[4] = {};
  for (i = 0; i + 4 * L <= n; i += 4 * L)
    for (int k = 0; k < 4; ++k) {
      const Vector<T> v = load(x + i + k * L) - first;
      d[k] += v;
      q[k] += v * v;
    }
  T deviation = add_lanes<T>(d[0] + d[1] + (d[2] + d[3]));
  T squares = add_lanes<T>(q[0] + q[1] + (q[2] + q[3]));
  for (; i < n; ++i) {
    const T v = x[i] - first;
    deviation += v;
    squares += v * v;
  }
  const T shift = deviation / static_cast<T>(n);
  return {first + shift, squares - shift * deviation};
}

template <class T>
Moments<double> row_moments_in_double(const T* x, int64_t n) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(x[i]) - mean;
    squares += v * v;
  }
  return {mean, squares};
}

template <class A, class T>
A reciprocal_deviation(const Moments<A>& m, const LayerNormForward<T>& a) {
  // Rounding may leave a tiny negative sum; a NaN must stay one.
  const A squares = m.squares < A(0) ? A(0) : m.squares;
  return A(1) / std::sqrt(squares / static_cast<A>(a.cols) + static_cast<A>(a.eps));
}

// y = gamma * (x - mean) * rstd + beta
template <class T>
void forward_row(const LayerNormForward<T>& a, const T* gamma, const T* beta, int64_t r) {
  constexpr int64_t L = kLanes<T>;
  const T* x = a.x + r * a.cols;
  T* y = a.y + r * a.cols;
  const Moments<T> m = row_moments(x, a.cols);
  if (sizeof(T) < sizeof(double) && !std::isfinite(m.squares)) {
    const Moments<double> wide = row_moments_in_double(x, a.cols);
    const double rstd = reciprocal_deviation(wide, a);
    a.mean[r] = static_cast<T>(wide.mean);
    a.rstd[r] = static_cast<T>(rstd);
    for (int64_t i = 0; i < a.cols; ++i)
      y[i] = static_cast<T>((static_cast<double>(x[i]) - wide.mean) * rstd *
                                static_cast<double>(gamma[i]) +
                            static_cast<double>(beta[i]));
    return;
  }
  const T mean = m.mean, rstd = reciprocal_deviation(m, a);
  a.mean[r] = mean;
  a.rstd[r] = rstd;
  int64_t i = 0;
  for (; i + L <= a.cols; i += L)
    store<T>(y + i, (load(x + i) - mean) * rstd * load(gamma + i) + load(beta + i));
  for (; i < a.cols; ++i) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
}

// With h = (x - mean) rstd and g = gamma dy:
//   dx = rstd (g - mean(g) - h mean(g h)),  dgamma = sum over rows of dy h,  dbeta = sum of dy.
// R rows at once, so that gamma and the partial sums are read once for all of them.
template <int R, class T>
void backward_rows(const LayerNormBackward<T>& a, const T* gamma, int64_t r, T* dgamma, T* dbeta) {
  constexpr int64_t L = kLanes<T>;
  const int64_t n = a.cols;
  const T* x = a.x + r * n;
  const T* dy = a.dy + r * n;
  const T* mean = a.mean + r;
  const T* rstd = a.rstd + r;
  Vector<T> g[R] = {}, gh[R] = {};
  int64_t i = 0;
  for (; i + L <= n; i += L) {
    const Vector<T> w = load(gamma + i);
    Vector<T> sum_dyh = load(dgamma + i), sum_dy = load(dbeta + i);
    for (int k = 0; k < R; ++k) {
      const Vector<T> d = load(dy + k * n + i), h = (load(x + k * n + i) - mean[k]) * rstd[k];
      sum_dy += d;
      sum_dyh += d * h;
      g[k] += w * d;
      gh[k] += w * d * h;
    }
    store<T>(dgamma + i, sum_dyh);
    store<T>(dbeta + i, sum_dy);
  }
  T c1[R], c2[R];
  for (int k = 0; k < R; ++k) {
    c1[k] = add_lanes<T>(g[k]);
    c2[k] = add_lanes<T>(gh[k]);
  }
  for (int64_t j = i; j < n; ++j)
    for (int k = 0; k < R; ++k) {
      const T d = dy[k * n + j], h = (x[k * n + j] - mean[k]) * rstd[k];
      dbeta[j] += d;
      dgamma[j] += d * h;
      c1[k] += gamma[j] * d;
      c2[k] += gamma[j] * d * h;
    }
  if (a.dx == nullptr) return;
  for (int k = 0; k < R; ++k) {
    T* dx = a.dx + (r + k) * n;
    const T *xk = x + k * n, *dk = dy + k * n;
    const T m = mean[k], s = rstd[k], m1 = c1[k] / static_cast<T>(n),
            m2 = c2[k] / static_cast<T>(n);
    for (i = 0; i + L <= n; i += L)
      store<T>(dx + i, s * (load(gamma + i) * load(dk + i) - m1 - (load(xk + i) - m) * s * m2));
    for (; i < n; ++i) dx[i] = s * (gamma[i] * dk[i] - m1 - (xk[i] - m) * s * m2);
  }
}

}  // namespace

template <class T>
void layer_norm_forward(const LayerNormForward<T>& a) {
  const OrConstant<T> gamma(a.gamma, a.cols, 1), beta(a.beta, a.cols, 0);
  parallel_for(a.rows, norm_rows_per_task(a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) forward_row(a, gamma.data, beta.data, r);
  });
}

template <class T>
void layer_norm_backward(const LayerNormBackward<T>& a) {
  const OrConstant<T> gamma(a.gamma, a.cols, 1);
  reduce_norm_rows<T>(a.rows, a.cols, {a.dgamma, a.accumulate_dgamma},
                      {a.dbeta, a.accumulate_dbeta},
                      [&](int64_t r, int64_t count, T* dgamma, T* dbeta) {
                        if (count == kRowGroup) {
                          backward_rows<kRowGroup>(a, gamma.data, r, dgamma, dbeta);
                        } else {
                          backward_rows<1>(a, gamma.data, r, dgamma, dbeta);
                        }
                      });
}

template void layer_norm_forward<float>(const LayerNormForward<float>&);
template void layer_norm_forward<double>(const LayerNormForward<double>&);
template void layer_norm_backward<float>(const LayerNormBackward<float>&);
template void layer_norm_backward<double>(const LayerNormBackward<double>&);

}  // namespace cbwc::cpu
