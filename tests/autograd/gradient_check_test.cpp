#include "autograd/gradient_check.h"

#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

// x^3 with a gradient that is wrong by one part in a thousand, in one element only.
class FaultyCube : public Op {
 public:
  explicit FaultyCube(Tensor x) : x_(std::move(x)) {}
  const char* name() const override { return "faulty_cube"; }
  void backward(Gradients& g) override {
    Tensor dx = g.out().clone();
    for (int64_t i = 0; i < dx.numel(); ++i) {
      const double x = x_.data<double>()[i];
      dx.data<double>()[i] *= 3 * x * x * (i == 1 ? 1.001 : 1.0);
    }
    g.give(0, dx);
  }

 private:
  Tensor x_;
};

Variable cube(const std::vector<Variable>& v) { return mul(v[0], mul(v[0], v[0])); }

Variable faulty_cube(const std::vector<Variable>& v) {
  Tensor y = v[0].value().clone();
  for (int64_t i = 0; i < y.numel(); ++i) y.data<double>()[i] = std::pow(y.data<double>()[i], 3);
  return record(std::make_unique<FaultyCube>(v[0].value()), {&v[0]}, y);
}

}  // namespace

TEST_CASE("a right gradient passes and a wrong element is found") {
  const std::vector<Tensor> x{sample({3, 4}, 2, "x")};
  CHECK(check_directions(cube, x).relative_error < 1e-9);
  CHECK(check_jacobian(cube, x).relative_error < 1e-9);
  CHECK(check_directions(faulty_cube, x).relative_error > kGradientTolerance);
  CHECK(check_jacobian(faulty_cube, x).relative_error > kGradientTolerance);
}

TEST_CASE("the error does not shrink with the size of the input") {
  const GradientCheckOptions wrong{.gradient_factor = 1.001};
  for (int64_t n : {10, 1000, 100000}) {
    const auto result = check_directions(cube, {sample({n}, 2, "x")}, wrong);
    CHECK(result.relative_error == Approx(1e-3).epsilon(0.01));
  }
}

TEST_CASE("NaN is a failure and float32 is refused") {
  const auto nan = [](const std::vector<Variable>& v) { return scale(v[0], std::nan("")); };
  CHECK(std::isinf(check_directions(nan, {sample({3}, 1, "x")}).relative_error));
  CHECK_THROWS_AS(check_directions(cube, {sample({3}, 1, "x", DType::f32)}), Error);
}
