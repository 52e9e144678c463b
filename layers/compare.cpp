#include "layers/compare.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "core/parallel.h"

namespace cbwc {
namespace {

constexpr double kFloor = 1e-6;  // of the set's largest value
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double largest(const Tensor& t) {
  double out = 0;
  for (double v : t.to(Device::cpu).to(DType::f64).to_vector<double>()) {
    out = std::max(out, std::abs(v));
  }
  return out;
}

}  // namespace

double relative_difference(const Tensor& a, const Tensor& b, double floor) {
  CBWC_CHECK(a.shape() == b.shape(), "compare: shapes ", to_string(a.shape()), " and ",
             to_string(b.shape()));
  const std::vector<double> u = a.to(Device::cpu).to(DType::f64).to_vector<double>();
  const std::vector<double> v = b.to(Device::cpu).to(DType::f64).to_vector<double>();
  double scale = floor, difference = 0;
  for (size_t i = 0; i < u.size(); ++i) {
    const double d = std::abs(u[i] - v[i]);
    if (std::isnan(d)) return kInfinity;
    difference = std::max(difference, d);
    scale = std::max(scale, std::abs(u[i]));
  }
  if (difference == 0) return 0;
  return scale == 0 ? kInfinity : difference / scale;
}

std::map<std::string, double> relative_differences(const NamedTensors& a, const NamedTensors& b) {
  double scale = 0;
  for (const auto& [name, t] : a) scale = std::max(scale, largest(t));
  CBWC_CHECK(a.size() == b.size(), "compare: ", a.size(), " tensors and ", b.size());
  std::map<std::string, double> out;
  for (const auto& [name, t] : a) {
    const auto found = b.find(name);
    CBWC_CHECK(found != b.end(), "compare: '", name, "' is in one set only");
    out[name] = relative_difference(t, found->second, kFloor * scale);
  }
  return out;
}

Difference relative_difference(const NamedTensors& a, const NamedTensors& b) {
  Difference out;
  for (const auto& [name, d] : relative_differences(a, b))
    if (out.name.empty() || d > out.largest) out = {d, name};
  return out;
}

bool all_finite(const Tensor& x) {
  if (!x.defined() || !is_float(x.dtype())) return true;
  const Tensor flat = x.contiguous();
  return dispatch_float(x.dtype(), "all_finite", [&](auto zero) {
    using T = decltype(zero);
    const T* values = flat.data<T>();
    std::atomic<bool> finite{true};
    parallel_for(flat.numel(), 1 << 16, [&](int64_t begin, int64_t end) {
      int64_t good = 0;  // counted, not searched: the loop stays one of vectors
      for (int64_t i = begin; i < end; ++i)
        good += std::abs(values[i]) <= std::numeric_limits<T>::max();
      if (good != end - begin) finite = false;
    });
    return finite.load();
  });
}

NamedTensors gradients(const Module& model) {
  NamedTensors out;
  for (const ParameterPtr& p : model.parameters()) {
    if (p->has_grad()) out.emplace(p->name(), p->grad());
  }
  return out;
}

}  // namespace cbwc
