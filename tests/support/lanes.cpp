#include "tests/support/lanes.h"

#include <algorithm>
#include <cmath>

namespace cbwc::testing {
namespace {

// The mean of each group.
std::vector<double> means(const std::vector<double>& x, const std::vector<int>& group) {
  std::vector<double> sum, count;
  for (size_t i = 0; i < x.size(); ++i) {
    if (group[i] < 0) continue;
    if (static_cast<size_t>(group[i]) >= sum.size()) {
      sum.resize(static_cast<size_t>(group[i]) + 1);
      count.resize(sum.size());
    }
    sum[group[i]] += x[i];
    count[group[i]] += 1;
  }
  for (size_t g = 0; g < sum.size(); ++g) sum[g] /= std::max(count[g], 1.0);
  return sum;
}

}  // namespace

std::vector<int> lane_groups(const Lane& lane, const Shape& shape) {
  const int64_t n = shape[lane.axis], total = numel(shape);
  int64_t stride = 1;
  for (size_t i = static_cast<size_t>(lane.axis) + 1; i < shape.size(); ++i) stride *= shape[i];
  const int64_t blocks = lane.block > 0 ? (lane.end - lane.start) / lane.block : 0;
  std::vector<int> group(static_cast<size_t>(total), -1);
  for (int64_t i = 0; i < total; ++i) {
    const int64_t at = i / stride % n;
    if (at < lane.start || at >= lane.end) continue;
    const int64_t block = (at - lane.start) / lane.block;
    group[i] = static_cast<int>((i / (stride * n) * blocks + block) * stride + i % stride);
  }
  return group;
}

Lane random_lane(const Shape& shape, Rng& rng) {
  Lane lane;
  lane.axis = static_cast<int>(rng.below(shape.size()));
  const auto n = static_cast<uint64_t>(shape[lane.axis]);
  if (rng.below(2) == 0) return whole_axis(shape, lane.axis);
  uint64_t a = 0, b = n;
  if (rng.below(2) == 0) {
    a = rng.below(n);
    b = a + 1 + rng.below(n - a);
  }
  uint64_t block = 1 + rng.below(b - a);
  while ((b - a) % block != 0) --block;
  lane.start = static_cast<int64_t>(a);
  lane.end = static_cast<int64_t>(b);
  lane.block = static_cast<int64_t>(block);
  return lane;
}

double largest(const Tensor& x) {
  double most = 0;
  for (double v : x.to_vector<double>()) most = std::max(most, std::abs(v));
  return most;
}

double largest_mean(const Tensor& x, const Lane& lane) {
  double most = 0;
  for (double m : means(x.to_vector<double>(), lane_groups(lane, x.shape())))
    most = std::max(most, std::abs(m));
  return most;
}

Tensor centred(const Tensor& x, const Lane& lane) {
  std::vector<double> v = x.to_vector<double>();
  const std::vector<int> group = lane_groups(lane, x.shape());
  const std::vector<double> mean = means(v, group);
  for (size_t i = 0; i < v.size(); ++i)
    if (group[i] >= 0) v[i] -= mean[group[i]];
  return Tensor::from(v, x.shape());
}

Tensor random_shift(const Shape& shape, const Lane& lane, Rng& rng) {
  const std::vector<int> group = lane_groups(lane, shape);
  int groups = 0;
  for (int g : group) groups = std::max(groups, g + 1);
  std::vector<double> shift(static_cast<size_t>(groups));
  for (double& s : shift) s = rng.normal();
  std::vector<double> v(group.size());
  for (size_t i = 0; i < v.size(); ++i) v[i] = group[i] < 0 ? 0 : shift[group[i]];
  return Tensor::from(v, shape);
}

double unevenness(const Tensor& change, const Lane& lane) {
  const std::vector<double> v = change.to_vector<double>();
  const std::vector<int> group = lane_groups(lane, change.shape());
  const std::vector<double> mean = means(v, group);
  double most = 0;
  for (size_t i = 0; i < v.size(); ++i)
    most = std::max(most, std::abs(v[i] - (group[i] < 0 ? 0 : mean[group[i]])));
  return most;
}

Tensor plus(const Tensor& a, const Tensor& b, double factor) {
  std::vector<double> x = a.to_vector<double>();
  const std::vector<double> y = b.to_vector<double>();
  CBWC_CHECK(a.shape() == b.shape(), "plus: ", to_string(a.shape()), " and ", to_string(b.shape()));
  for (size_t i = 0; i < x.size(); ++i) x[i] += factor * y[i];
  return Tensor::from(x, a.shape());
}

}  // namespace cbwc::testing
