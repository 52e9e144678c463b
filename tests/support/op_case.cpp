#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/device_services.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "tests/support/catch.h"

namespace cbwc::testing {
namespace {

constexpr int64_t kSmallJacobian = 2500;  // entries: above it only directions are tried
constexpr double kControlFactor = 1.001;  // the wrong gradient that must be noticed
constexpr double kControlDetects = 5e-4;  // half of its error

std::vector<Tensor> inputs_of(const OpCase& c, DType dtype, Device device = Device::cpu) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < c.shapes.size(); ++i) {
    inputs.push_back(sample(c.shapes[i], c.seed, std::to_string(i), dtype).to(device));
  }
  return inputs;
}

void compare(const Evaluation& got, const Evaluation& want, double tolerance) {
  CHECK(got.output.shape() == want.output.shape());
  CHECK(difference(got.output, want.output) <= tolerance);
  for (size_t i = 0; i < want.gradients.size(); ++i) {
    INFO("gradient of input " << i);
    CHECK(difference(got.gradients[i], want.gradients[i]) <= tolerance);
  }
}

bool same_bits(const Evaluation& a, const Evaluation& b) {
  bool same = testing::same_bits(a.output, b.output);
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    same = same && testing::same_bits(a.gradients[i], b.gradients[i]);
  }
  return same;
}

void check_reference(const OpCase& c) {
  if (!c.reference) return;
  const auto f64 = inputs_of(c, DType::f64), f32 = inputs_of(c, DType::f32);
  const Evaluation want = evaluate(c.reference, f64);
  INFO("float64 against the reference");
  compare(evaluate(c.run, f64), want, c.tolerance64);
  INFO("float32 against the float64 reference");
  const Evaluation got = evaluate(c.run, f32);
  CHECK(got.output.dtype() == DType::f32);
  compare(got, want, c.tolerance32);
}

void check_gradient(const OpCase& c) {
  const auto inputs = inputs_of(c, DType::f64);
  int64_t entries = evaluate(c.run, inputs).output.numel(), elements = 0;
  for (const Tensor& x : inputs) elements += x.numel();
  entries *= elements;
  if (entries == 0) return;
  GradientCheckOptions right, wrong;
  wrong.gradient_factor = kControlFactor;
  const auto directions = check_directions(c.run, inputs, right);
  INFO("directional derivative " << directions.analytic << ", numeric " << directions.numeric);
  CHECK(directions.relative_error <= c.gradient_tolerance);
  CHECK(check_directions(c.run, inputs, wrong).relative_error >= kControlDetects);
  if (entries > kSmallJacobian) return;
  const auto jacobian = check_jacobian(c.run, inputs, right);
  INFO("Jacobian entry " << jacobian.analytic << ", numeric " << jacobian.numeric);
  CHECK(jacobian.relative_error <= c.gradient_tolerance);
  CHECK(check_jacobian(c.run, inputs, wrong).relative_error >= kControlDetects);
}

void check_repeatable(const OpCase& c) {
  const auto inputs = inputs_of(c, DType::f32);
  const int before = threads();
  const Evaluation first = evaluate(c.run, inputs), second = evaluate(c.run, inputs);
  set_threads(1);
  const Evaluation one = evaluate(c.run, inputs);
  set_threads(2);
  const Evaluation two = evaluate(c.run, inputs);
  set_threads(before);
  CHECK(same_bits(first, second));
  CHECK(same_bits(one, two));
}

// A strided view: of rank 1 one element seen many times, else a part of a larger tensor, its axes
// in reverse.
Tensor strided(const Tensor& x) {
  if (x.rank() == 0 || x.numel() == 0) return x;
  if (x.rank() == 1) return x.slice(0, 0, 1).clone().expand(x.shape());
  Shape room;
  std::vector<int> reverse;
  for (int i = x.rank() - 1; i >= 0; --i) {
    room.push_back(x.size(i) + 2);
    reverse.push_back(i);
  }
  Tensor view = Tensor::full(room, std::nan(""), x.dtype()).permute(reverse);
  for (int i = 0; i < x.rank(); ++i) view = view.slice(i, 1, 1 + x.size(i));
  view.copy_from(x);
  return view;
}

void check_strided(const OpCase& c) {
  for (size_t i = 0; i < c.shapes.size(); ++i) {
    INFO("input " << i << " strided");
    auto inputs = inputs_of(c, DType::f64);
    inputs[i] = strided(inputs[i]);
    const Evaluation got = evaluate(c.run, inputs);
    inputs[i] = inputs[i].clone();
    CHECK(same_bits(got, evaluate(c.run, inputs)));
  }
}

void check_cuda(const OpCase& c) {
  if (!c.cuda) return;
  if (!cuda::built() || cuda::device_count() == 0) {
    static const bool told = [] {
      std::cout << "op cases: CPU = CUDA skipped, no GPU or built without CUDA\n";
      return true;
    }();
    (void)told;
    return;
  }
  INFO("CUDA against the CPU");
  for (DType dtype : {DType::f64, DType::f32}) {
    const Evaluation want = evaluate(c.run, inputs_of(c, dtype));
    const auto on_gpu = inputs_of(c, dtype, Device::cuda);
    const Evaluation got = evaluate(c.run, on_gpu);
    CHECK(got.output.device() == Device::cuda);
    compare(got, want, dtype == DType::f64 ? c.tolerance64 : c.tolerance32);
    CHECK(same_bits(got, evaluate(c.run, on_gpu)));
  }
}

std::vector<double> as_doubles(const Tensor& x) {
  return x.to(Device::cpu).to(DType::f64).to_vector<double>();
}

}  // namespace

Tensor sample(const Shape& shape, uint64_t seed, const std::string& stream, DType dtype) {
  Rng rng(seed, "sample/" + stream);
  Tensor x = Tensor::empty(shape, DType::f64);
  fill_normal(x, 0.5, 1.0, rng);
  // Both types hold the same numbers, so that a float32 result differs by its own rounding only.
  return x.to(DType::f32).to(dtype);
}

double difference(const Tensor& a, const Tensor& b) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (a.shape() != b.shape()) return infinity;
  const std::vector<double> x = as_doubles(a), y = as_doubles(b);
  double scale = 1.0, worst = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return infinity;
    worst = std::max(worst, std::abs(x[i] - y[i]));
  }
  for (double value : y) {
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  }
  return worst / scale;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.to(Device::cpu).contiguous(), y = b.to(Device::cpu).contiguous();
  return x.numel() == 0 || std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
}

Evaluation evaluate(const TensorFunction& f, const std::vector<Tensor>& inputs, uint64_t seed) {
  Tape tape;
  TapeScope scope(&tape);
  std::vector<Variable> leaves;
  for (const Tensor& x : inputs) leaves.push_back(tape.leaf(x, true));
  const Variable y = f(leaves);
  Rng rng(seed, "evaluate/weights");
  Tensor weights = Tensor::empty(y.shape(), DType::f64);
  fill_normal(weights, 0.3, 1.0, rng);
  weights = weights.to(DType::f32).to(y.dtype()).to(y.value().device());
  tape.backward(sum(mul(y, Variable(weights))));
  Evaluation out{y.value().clone(), {}};
  for (const Variable& leaf : leaves) {
    const Tensor gradient = tape.grad(leaf);
    out.gradients.push_back(gradient.defined() ? gradient.clone()
                                               : Tensor::zeros_like(leaf.value()));
  }
  return out;
}

void run_op_case(const OpCase& c) {
  INFO("op case " << c.name);
  check_reference(c);
  check_gradient(c);
  check_repeatable(c);
  check_strided(c);
  check_cuda(c);
  for (const BadInput& bad : c.bad_inputs) {
    INFO("bad input, expected message: " << bad.message);
    std::string said = "no error";
    try {
      bad.call();
    } catch (const Error& e) {
      said = e.what();
    }
    INFO("it said: " << said);
    CHECK(said.find(bad.message) != std::string::npos);
  }
}

}  // namespace cbwc::testing
