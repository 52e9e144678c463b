// Comparing two models tensor by tensor (method.md 8).
#pragma once
#include "layers/module.h"

namespace cbwc {

struct Difference {
  double largest = 0;  // relative; NaN in either set gives infinity
  std::string name;    // the tensor that has it
};

// Per tensor max|a - b| / max(max|a|, 1e-6 * the set's largest value), and the largest of these.
// The floor keeps a gradient that is zero in exact arithmetic (a key bias) from counting. Error
// when the sets' names or shapes differ.
Difference relative_difference(const NamedTensors& a, const NamedTensors& b);
// Of each tensor.
std::map<std::string, double> relative_differences(const NamedTensors& a, const NamedTensors& b);
double relative_difference(const Tensor& a, const Tensor& b, double floor = 0);  // max|a| >= floor

bool all_finite(const Tensor& x);  // true for integers and for no tensor

NamedTensors gradients(const Module& model);  // of the parameters that have one

}  // namespace cbwc
