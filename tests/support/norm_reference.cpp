#include "tests/support/norm_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace cbwc::testing {
namespace {

constexpr double kOldGradient = 0.75;  // what accumulated gradients start from

template <class T>
std::vector<T> normal(std::mt19937_64& engine, int64_t count, double mean, double deviation) {
  std::normal_distribution<double> draw(mean, deviation);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = static_cast<T>(draw(engine));
  return values;
}

// One row; centred: LayerNorm, otherwise RMSNorm. Adds to the parameter gradients.
template <class T>
void reference_row(const NormCase<T>& c, bool centred, size_t row, NormResult<T>& r,
                   std::vector<double>& dgamma, std::vector<double>& dbeta) {
  const auto cols = static_cast<size_t>(c.cols);
  const T* x = c.x.data() + row * cols;
  const T* dy = c.dy.data() + row * cols;
  double mean = 0, squares = 0, mean_g = 0, mean_gz = 0;
  for (size_t i = 0; i < cols && centred; ++i) mean += x[i];
  mean /= static_cast<double>(cols);
  for (size_t i = 0; i < cols; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double rstd = 1 / std::sqrt(squares / static_cast<double>(cols) + c.eps);
  std::vector<double> z(cols), g(cols);
  for (size_t i = 0; i < cols; ++i) {
    const double gain = c.gamma.empty() ? 1 : c.gamma[i];
    z[i] = (x[i] - mean) * rstd;
    g[i] = dy[i] * gain;
    r.y[row * cols + i] = static_cast<T>(z[i] * gain + (c.beta.empty() ? 0 : c.beta[i]));
    mean_g += centred ? g[i] / static_cast<double>(cols) : 0;
    mean_gz += g[i] * z[i] / static_cast<double>(cols);
    dgamma[i] += dy[i] * z[i];
    dbeta[i] += dy[i];
    r.dx_terms = std::max(r.dx_terms, rstd * std::abs(g[i]));
  }
  for (size_t i = 0; i < cols; ++i)
    r.dx[row * cols + i] = static_cast<T>(rstd * (g[i] - mean_g - z[i] * mean_gz));
  r.mean[row] = static_cast<T>(centred ? mean : 0);
  r.rstd[row] = static_cast<T>(rstd);
}

template <class T>
NormResult<T> reference(const NormCase<T>& c, bool centred, bool accumulate) {
  NormResult<T> r(c, accumulate);
  const double start = accumulate ? kOldGradient : 0;
  std::vector<double> dgamma(r.dgamma.size(), start), dbeta(r.dbeta.size(), start);
  for (size_t row = 0; row < static_cast<size_t>(c.rows); ++row)
    reference_row(c, centred, row, r, dgamma, dbeta);
  std::transform(dgamma.begin(), dgamma.end(), r.dgamma.begin(), [](double v) { return T(v); });
  std::transform(dbeta.begin(), dbeta.end(), r.dbeta.begin(), [](double v) { return T(v); });
  return r;
}

}  // namespace

template <class T>
NormCase<T>::NormCase(int64_t rows_, int64_t cols_, bool affine, double eps_)
    : rows(rows_), cols(cols_), eps(eps_) {
  std::mt19937_64 engine(static_cast<uint64_t>(rows * 100003 + cols));
  // Few columns drawn alike would now and then be almost equal; then rstd multiplies the rounding
  // of their mean by hundreds, and no float32 kernel agrees with another.
  const bool narrow = cols < 10;
  x = normal<T>(engine, rows * cols, 1.5, narrow ? 0.25 : 2.0);
  for (size_t i = 0; i < x.size() && narrow; ++i)
    x[i] += i % static_cast<size_t>(cols) % 2 == 0 ? T(1.5) : T(-1.5);
  dy = normal<T>(engine, rows * cols, 0.3, 1.0);
  if (!affine) return;
  gamma = normal<T>(engine, cols, 1.0, 0.4);
  beta = normal<T>(engine, cols, 0.2, 0.5);
}

template <class T>
NormResult<T>::NormResult(const NormCase<T>& c, bool accumulate) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for (std::vector<T>* values : {&y, &dx}) values->assign(c.x.size(), nan);
  rstd.assign(static_cast<size_t>(c.rows), nan);
  mean.assign(static_cast<size_t>(c.rows), T(0));
  for (std::vector<T>* values : {&dgamma, &dbeta})
    values->assign(static_cast<size_t>(c.cols), accumulate ? T(kOldGradient) : nan);
}

template <class T>
NormResult<T> layer_norm_reference(const NormCase<T>& c, bool accumulate) {
  return reference(c, true, accumulate);
}
template <class T>
NormResult<T> rms_norm_reference(const NormCase<T>& c, bool accumulate) {
  return reference(c, false, accumulate);
}

template <class T>
double largest_difference(const std::vector<T>& got, const std::vector<T>& want, double scale) {
  double error = 0;
  for (const T value : want) scale = std::max(scale, std::abs(static_cast<double>(value)));
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    error = std::isfinite(difference) ? std::max(error, difference)
                                      : std::numeric_limits<double>::infinity();
    if (!std::isfinite(error)) return error;
  }
  return error / scale;
}

template <class T>
double largest_error(const NormResult<T>& got, const NormResult<T>& want) {
  return std::max(
      {largest_difference(got.y, want.y), largest_difference(got.mean, want.mean),
       largest_difference(got.rstd, want.rstd), largest_difference(got.dx, want.dx, want.dx_terms),
       largest_difference(got.dgamma, want.dgamma), largest_difference(got.dbeta, want.dbeta)});
}

#define CBWC_INSTANTIATE(T)                                                                 \
  template struct NormCase<T>;                                                              \
  template struct NormResult<T>;                                                            \
  template NormResult<T> layer_norm_reference(const NormCase<T>&, bool);                    \
  template NormResult<T> rms_norm_reference(const NormCase<T>&, bool);                      \
  template double largest_difference(const std::vector<T>&, const std::vector<T>&, double); \
  template double largest_error(const NormResult<T>&, const NormResult<T>&);
CBWC_INSTANTIATE(float)
CBWC_INSTANTIATE(double)

}  // namespace cbwc::testing
