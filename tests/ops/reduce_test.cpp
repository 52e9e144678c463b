#include "autograd/ops/reduce.h"

#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

using namespace cbwc;
using namespace cbwc::testing;
using Inputs = std::vector<Variable>;

namespace {

Tensor gradient(const TensorFunction& f, const Tensor& x) {
  Tape tape;
  TapeScope scope(&tape);
  const Variable leaf = tape.leaf(x, true);
  tape.backward(sum(f({leaf})));
  return tape.grad(leaf);
}

Tensor vec(const std::vector<double>& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

// The sum by slices and additions; axes in falling order, so that the others keep their numbers.
Variable sum_by_slices(Variable x, const std::vector<int>& falling_axes) {
  for (int axis : falling_axes) {
    Variable total = slice(x, axis, 0, 1);
    for (int64_t i = 1; i < x.size(axis); ++i) total = add(total, slice(x, axis, i, i + 1));
    Shape shape = x.shape();
    shape.erase(shape.begin() + axis);
    x = reshape(total, shape);
  }
  return x;
}

const std::vector<std::vector<int>> kAxes{{3, 2, 1, 0}, {3},    {0},    {1},
                                          {2, 1},       {3, 1}, {2, 0}, {3, 0}};

}  // namespace

TEST_CASE("sum and mean over any axes equal additions of slices") {
  for (const auto& axes : kAxes) {
    INFO(axes.size() << " axes, the last " << axes.front());
    run_op_case({.name = "sum",
                 .shapes = {{2, 3, 4, 5}},
                 .run = [&](const Inputs& x) { return sum(x[0], axes); },
                 .reference = [&](const Inputs& x) { return sum_by_slices(x[0], axes); }});
    double n = 1;
    for (int axis : axes) n *= axis + 2;
    run_op_case(
        {.name = "mean",
         .shapes = {{2, 3, 4, 5}},
         .run = [&](const Inputs& x) { return mean(x[0], axes); },
         .reference = [&](const Inputs& x) { return scale(sum_by_slices(x[0], axes), 1 / n); }});
  }
}

TEST_CASE("max and norm pass the op case over any axes") {
  for (const auto& axes : kAxes) {
    run_op_case({.name = "max",
                 .shapes = {{2, 3, 4, 5}},
                 .run = [&](const Inputs& x) { return max(x[0], axes, true); },
                 .reference = {}});
    run_op_case(
        {.name = "norm",
         .shapes = {{2, 3, 4, 5}},
         .run =
             [&](const Inputs& x) {
               const Variable y = norm(x[0], axes);
               return mul(y, y);
             },
         .reference = [&](const Inputs& x) { return sum_by_slices(mul(x[0], x[0]), axes); }});
  }
  const Tensor x = vec({-3, -7, -1, -2});
  CHECK(max(x).value().item() == -1.0);
  CHECK(norm(vec({3, 4})).value().item() == 5.0);
}

TEST_CASE("keepdim, empty and wrong axes") {
  const Tensor x = sample({2, 3, 4}, 1, "x");
  CHECK(sum(x, {1}, true).shape() == Shape{2, 1, 4});
  CHECK(sum(x, {-1, 0}).shape() == Shape{3});
  CHECK(sum(x).shape() == Shape{});
  CHECK(sum(Tensor::zeros({0, 3}, DType::f64)).value().item() == 0.0);
  CHECK(sum(Tensor::zeros({0, 3}, DType::f64), {0}).value().to_vector<double>() ==
        std::vector<double>{0, 0, 0});
  const Tensor empty = Tensor::zeros({0, 3}, DType::f64);
  CHECK_THROWS_AS(mean(empty), Error);
  CHECK_THROWS_AS(max(empty, {0}), Error);
  CHECK_THROWS_AS(sum(x, {3}), Error);
  CHECK_THROWS_AS(sum(x, {1, -2}), Error);
  CHECK_THROWS_AS(sum(x.to(DType::i32)), Error);
}

TEST_CASE("P36: the norm has gradient 0 at 0") {
  const auto rows = [](const Inputs& x) { return norm(x[0], {-1}); };
  CHECK(gradient(rows, vec({0, 0, 0})).to_vector<double>() == std::vector<double>{0, 0, 0});
  const Tensor got = gradient(rows, Tensor::from(std::vector<double>{0, 0, 0, 1, 2, 2}, {2, 3}));
  const std::vector<double> want{0, 0, 0, 1.0 / 3, 2.0 / 3, 2.0 / 3};
  CHECK(difference(got, Tensor::from(want, {2, 3})) < 1e-15);
}

TEST_CASE("P37: ties in max share the gradient") {
  const auto all = [](const Inputs& x) { return max(x[0]); };
  CHECK(gradient(all, vec({3, 1, 3})).to_vector<double>() == std::vector<double>{0.5, 0, 0.5});
  CHECK(gradient(all, vec({2, 2, 2, 2})).to_vector<double>() ==
        std::vector<double>{0.25, 0.25, 0.25, 0.25});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& values : {std::vector<double>{nan, 1, 2}, std::vector<double>{1, 2, nan}}) {
    CHECK(std::isnan(max(vec(values)).value().item()));
  }
}

TEST_CASE("P43: mean over two axes that are not neighbours") {
  const Tensor x = Tensor::full({2, 3, 4, 5}, 1.0, DType::f64);
  const Tensor got = gradient([](const Inputs& v) { return mean(v[0], {1, 3}); }, x);
  CHECK(got.shape() == Shape{2, 3, 4, 5});
  CHECK(difference(got, Tensor::full({2, 3, 4, 5}, 1.0 / 15, DType::f64)) < 1e-15);
}

TEST_CASE("long sums keep their precision and their bits") {
  const int64_t n = 3000001;
  Tensor x = Tensor::full({n}, 0.1, DType::f32);
  // The exact sum of n float32 values of 0.1f, rounded once to float32.
  CHECK(sum(x).value().item() == static_cast<float>(static_cast<double>(0.1f) * n));
  run_op_case({.name = "sum of long rows and many columns",
               .shapes = {{3, 40000}},
               .run = [](const Inputs& v) { return add(sum(v[0]), sum(sum(v[0], {0}))); },
               .reference =
                   [](const Inputs& v) {
                     return scale(sum(v[0], {1, 0}), 2.0);
                   }});
}
