#include "autograd/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/kernels/elementwise.h"
#include "core/rng.h"

namespace cbwc {
namespace {

void require_f64(const std::vector<Tensor>& inputs) {
  for (const Tensor& x : inputs) {
    CBWC_CHECK(x.dtype() == DType::f64, "gradient check: inputs must be float64, got ",
               dtype_name(x.dtype()));
  }
}

Tensor value_at(const TensorFunction& f, const std::vector<Tensor>& inputs) {
  TapeScope off(nullptr);
  const Tensor y = f(std::vector<Variable>(inputs.begin(), inputs.end())).value();
  CBWC_CHECK(y.dtype() == DType::f64, "gradient check: the function must stay in float64, it gave ",
             dtype_name(y.dtype()));
  return y.to(Device::cpu).clone();
}

double dot(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to(Device::cpu).to_vector<double>();
  const std::vector<double> y = b.to(Device::cpu).to_vector<double>();
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) total += x[i] * y[i];
  return total;
}

// Gradients of sum(weights * f(inputs)); zeros for an input that f does not use.
std::vector<Tensor> gradients_of(const TensorFunction& f, const std::vector<Tensor>& inputs,
                                 const Tensor& weights, double factor) {
  Tape tape;
  TapeScope scope(&tape);
  std::vector<Variable> leaves;
  for (const Tensor& x : inputs) leaves.push_back(tape.leaf(x, true));
  const Variable y = f(leaves);
  tape.backward(sum(mul(y, Variable(weights.to(y.value().device())))));
  std::vector<Tensor> out;
  for (const Variable& leaf : leaves) {
    Tensor gradient = tape.grad(leaf);
    gradient = gradient.defined() ? gradient.to(Device::cpu).clone()
                                  : Tensor::zeros(leaf.shape(), DType::f64);
    cpu::scale(gradient.data<double>(), factor, gradient.data<double>(), gradient.numel());
    out.push_back(gradient);
  }
  return out;
}

Tensor normal(const Shape& shape, uint64_t seed, const std::string& stream) {
  Rng rng(seed, stream);
  Tensor x = Tensor::empty(shape, DType::f64);
  fill_normal(x, 0.0, 1.0, rng);
  return x;
}

// inputs + amount * direction, in new storage.
std::vector<Tensor> moved(const std::vector<Tensor>& inputs, const std::vector<Tensor>& direction,
                          double amount) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor x = inputs[i].to(Device::cpu).clone();
    cpu::axpy(x.data<double>(), amount, direction[i].data<double>(), x.numel());
    out.push_back(x.to(inputs[i].device()));
  }
  return out;
}

void keep_worst(GradientCheckResult& worst, double numeric, double analytic, double scale) {
  double error = scale == 0.0 ? 0.0 : std::abs(numeric - analytic) / scale;
  if (!std::isfinite(numeric) || !std::isfinite(analytic)) {
    error = std::numeric_limits<double>::infinity();
  }
  if (error >= worst.relative_error) worst = {error, numeric, analytic};
}

// df/dt at 0 of f(inputs + t direction): (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h
Tensor difference_quotient(const TensorFunction& f, const std::vector<Tensor>& inputs,
                           const std::vector<Tensor>& direction, double h) {
  const auto at = [&](double t) {
    return value_at(f, moved(inputs, direction, t)).to_vector<double>();
  };
  const auto p1 = at(h), m1 = at(-h), p2 = at(2 * h), m2 = at(-2 * h);
  std::vector<double> slope(p1.size());
  for (size_t i = 0; i < slope.size(); ++i) {
    slope[i] = (8 * (p1[i] - m1[i]) - (p2[i] - m2[i])) / (12 * h);
  }
  const Shape shape{static_cast<int64_t>(slope.size())};
  return Tensor::from(slope, shape);
}

}  // namespace

GradientCheckResult check_directions(const TensorFunction& f, const std::vector<Tensor>& inputs,
                                     const GradientCheckOptions& options) {
  require_f64(inputs);
  const Tensor y = value_at(f, inputs);
  const Tensor weights = normal(y.shape(), options.seed, "gradient_check/weights");
  const auto gradients = gradients_of(f, inputs, weights, options.gradient_factor);
  GradientCheckResult worst;
  for (int d = 0; d < options.directions; ++d) {
    std::vector<Tensor> direction;
    double analytic = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string stream = "gradient_check/" + std::to_string(d) + "/" + std::to_string(i);
      direction.push_back(normal(inputs[i].shape(), options.seed, stream));
      analytic += dot(gradients[i], direction.back());
    }
    const double numeric = dot(weights, difference_quotient(f, inputs, direction, options.step));
    keep_worst(worst, numeric, analytic, std::max(std::abs(numeric), std::abs(analytic)));
  }
  return worst;
}

GradientCheckResult check_jacobian(const TensorFunction& f, const std::vector<Tensor>& inputs,
                                   const GradientCheckOptions& options) {
  require_f64(inputs);
  const Tensor y = value_at(f, inputs);
  const int64_t outputs = y.numel();
  std::vector<std::vector<Tensor>> rows;  // one set of input gradients per output element
  for (int64_t o = 0; o < outputs; ++o) {
    Tensor unit = Tensor::zeros(y.shape(), DType::f64);
    unit.data<double>()[o] = 1.0;
    rows.push_back(gradients_of(f, inputs, unit, options.gradient_factor));
  }
  std::vector<double> numeric, analytic;
  double largest = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (int64_t k = 0; k < inputs[i].numel(); ++k) {
      std::vector<Tensor> direction;
      for (const Tensor& x : inputs) direction.push_back(Tensor::zeros(x.shape(), DType::f64));
      direction[i].data<double>()[k] = 1.0;
      const Tensor column = difference_quotient(f, inputs, direction, options.step);
      for (int64_t o = 0; o < outputs; ++o) {
        numeric.push_back(column.data<double>()[o]);
        analytic.push_back(rows[o][i].data<double>()[k]);
        largest = std::max({largest, std::abs(numeric.back()), std::abs(analytic.back())});
      }
    }
  }
  GradientCheckResult worst;
  for (size_t k = 0; k < numeric.size(); ++k) keep_worst(worst, numeric[k], analytic[k], largest);
  return worst;
}

}  // namespace cbwc
