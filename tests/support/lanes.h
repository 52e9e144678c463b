// Lanes in numbers (autograd/analysis/zero_mean.h): the groups of a lane, their means, shifts that
// are constant along it. Float64.
#pragma once
#include <vector>

#include "autograd/analysis/zero_mean.h"
#include "core/rng.h"

namespace cbwc::testing {

// For each element, in flat order, the number of its group; -1 outside the lane.
std::vector<int> lane_groups(const Lane& lane, const Shape& shape);
// A lane of the shape: any axis, any window of it, blocks that divide the window.
Lane random_lane(const Shape& shape, Rng& rng);

double largest(const Tensor& x);                         // max |x|; 0 when empty
double largest_mean(const Tensor& x, const Lane& lane);  // max over the groups of |mean|
Tensor centred(const Tensor& x, const Lane& lane);       // each group minus its mean
// One random number per group, zero outside.
Tensor random_shift(const Shape& shape, const Lane& lane, Rng& rng);
// How far a change is from one number per group of the lane and none outside: max |difference|.
double unevenness(const Tensor& change, const Lane& lane);

Tensor plus(const Tensor& a, const Tensor& b, double factor = 1);  // a + factor * b

}  // namespace cbwc::testing
