// Gradient check in float64: the derivative along a random direction, or the whole Jacobian,
// against central differences of fourth order. The error is relative to the derivative itself and
// is not loosened by the size of the inputs.
#pragma once
#include <functional>

#include "autograd/tape.h"

namespace cbwc {

// Any differentiable function of float64 inputs; it must return the same values when called again
// (a function that draws random numbers sets its stream back first).
using TensorFunction = std::function<Variable(const std::vector<Variable>&)>;

struct GradientCheckOptions {
  uint64_t seed = 1;
  int directions = 3;
  double step = 1e-4;            // in units of the inputs
  double gradient_factor = 1.0;  // multiplies the gradient: the negative control uses 1.001
};

struct GradientCheckResult {
  double relative_error = 0;         // the worst; infinite when a value is not finite
  double numeric = 0, analytic = 0;  // where it was
};

// All inputs move at once, along `directions` random directions; a random weighting of the outputs
// makes the function scalar. relative_error = |numeric - analytic| / max(|numeric|, |analytic|).
GradientCheckResult check_directions(const TensorFunction& f, const std::vector<Tensor>& inputs,
                                     const GradientCheckOptions& options = {});

// Every derivative of every output by every input; relative to the largest entry of the Jacobian.
GradientCheckResult check_jacobian(const TensorFunction& f, const std::vector<Tensor>& inputs,
                                   const GradientCheckOptions& options = {});

}  // namespace cbwc
