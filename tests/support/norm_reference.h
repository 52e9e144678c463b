// LayerNorm and RMSNorm cases with non-zero means and random gains, their results by plain loops in
// double, and the kernels' argument structs for them. Shared by the emulation and the GPU test.
#pragma once
#include <vector>

#include "core/kernels/layer_norm.h"
#include "core/kernels/rms_norm.h"

namespace cbwc::testing {

// Some tens of roundings of the type (the kernels sum in many short chains, and NormCase conditions
// its inputs well); for double also those of the references' own sums over up to 65537 rows.
template <class T>
constexpr double tolerance() {
  return sizeof(T) == 4 ? 5e-6 : 1e-13;
}

template <class T>
struct NormCase {
  NormCase(int64_t rows, int64_t cols, bool affine, double eps);
  int64_t rows, cols;
  double eps;
  std::vector<T> x, dy, gamma, beta;  // gamma and beta are empty when not affine
};

template <class T>
struct NormResult {
  // accumulate: the parameter gradients start from known values, else from NaN.
  NormResult(const NormCase<T>& c, bool accumulate);
  std::vector<T> y, mean, rstd, dx, dgamma, dbeta;
  // The largest rstd |gamma dy|, set by the references. dx is a difference of terms of that size:
  // in rows of one or two columns nearly all of it cancels, and only their roundings are left.
  double dx_terms = 1;
};

template <class T>
NormResult<T> layer_norm_reference(const NormCase<T>& c, bool accumulate);
template <class T>
NormResult<T> rms_norm_reference(const NormCase<T>& c, bool accumulate);

// The largest |got - want| / max(scale, largest |want|); infinite where got is NaN and want is not.
template <class T>
double largest_difference(const std::vector<T>& got, const std::vector<T>& want, double scale = 1);
template <class T>
double largest_error(const NormResult<T>& got, const NormResult<T>& want);

template <class T>
const T* data_or_null(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}
template <class T>
LayerNormForward<T> layer_norm_forward_of(const NormCase<T>& c, NormResult<T>& r) {
  return {.x = c.x.data(),
          .gamma = data_or_null(c.gamma),
          .beta = data_or_null(c.beta),
          .y = r.y.data(),
          .mean = r.mean.data(),
          .rstd = r.rstd.data(),
          .rows = c.rows,
          .cols = c.cols,
          .eps = c.eps};
}
template <class T>
LayerNormBackward<T> layer_norm_backward_of(const NormCase<T>& c, NormResult<T>& r,
                                            bool accumulate) {
  return {.dy = c.dy.data(),
          .x = c.x.data(),
          .gamma = data_or_null(c.gamma),
          .mean = r.mean.data(),
          .rstd = r.rstd.data(),
          .dx = r.dx.data(),
          .dgamma = r.dgamma.data(),
          .dbeta = r.dbeta.data(),
          .accumulate_dgamma = accumulate,
          .accumulate_dbeta = accumulate,
          .rows = c.rows,
          .cols = c.cols};
}
template <class T>
RmsNormForward<T> rms_norm_forward_of(const NormCase<T>& c, NormResult<T>& r) {
  return {.x = c.x.data(),
          .gamma = data_or_null(c.gamma),
          .beta = data_or_null(c.beta),
          .y = r.y.data(),
          .rstd = r.rstd.data(),
          .rows = c.rows,
          .cols = c.cols,
          .eps = c.eps};
}
template <class T>
RmsNormBackward<T> rms_norm_backward_of(const NormCase<T>& c, NormResult<T>& r, bool accumulate) {
  return {.dy = c.dy.data(),
          .x = c.x.data(),
          .gamma = data_or_null(c.gamma),
          .rstd = r.rstd.data(),
          .dx = r.dx.data(),
          .dgamma = r.dgamma.data(),
          .dbeta = r.dbeta.data(),
          .accumulate_dgamma = accumulate,
          .accumulate_dbeta = accumulate,
          .rows = c.rows,
          .cols = c.cols};
}

}  // namespace cbwc::testing
