#include "autograd/ops/linear.h"

#include "autograd/ops/center.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

using namespace cbwc;
using namespace cbwc::testing;
using Inputs = std::vector<Variable>;

namespace {

// op(a) op(b) as a broadcast product and a sum: (..., m, k, 1) times (..., 1, k, n).
Variable product(const Variable& a, const Variable& b, bool transpose_a, bool transpose_b) {
  const auto turned = [](const Variable& x, bool turn) {
    std::vector<int> axes(x.rank());
    for (int i = 0; i < x.rank(); ++i) axes[i] = i;
    if (turn) std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    return permute(x, axes);
  };
  const Variable left = turned(a, transpose_a), right = turned(b, transpose_b);
  Shape l = left.shape(), r = right.shape();
  l.push_back(1);
  r.insert(r.end() - 2, 1);
  return sum(mul(reshape(left, l), reshape(right, r)), {-2});
}

}  // namespace

TEST_CASE("matmul passes the op case in every combination of transposes") {
  for (const Shape& lead : {Shape{}, Shape{3}, Shape{2, 2}}) {
    for (int turns = 0; turns < 4; ++turns) {
      const bool ta = (turns & 1) != 0, tb = (turns & 2) != 0;
      INFO("batch " << to_string(lead) << ", transposes " << ta << tb);
      Shape a = lead, b = lead;
      a.insert(a.end(), {ta ? 5 : 4, ta ? 4 : 5});
      b.insert(b.end(), {tb ? 3 : 5, tb ? 5 : 3});
      run_op_case({.name = "matmul",
                   .shapes = {a, b},
                   .run = [=](const Inputs& x) { return matmul(x[0], x[1], ta, tb); },
                   .reference = [=](const Inputs& x) { return product(x[0], x[1], ta, tb); },
                   .cuda = false});
    }
  }
  const Tensor a = sample({2, 3}, 1, "a");
  CHECK_THROWS_AS(matmul(a, a), Error);
  CHECK_NOTHROW(matmul(a, a, false, true));
}

TEST_CASE("linear passes the op case with and without bias") {
  const std::vector<Shape> inputs{{1, 5}, {4, 5}, {2, 3, 5}, {5}, {0, 5}, {65, 5}};
  const auto reference = [](const Inputs& x) {
    const Shape flat{x[0].value().numel() / 5, 5};
    Shape out = x[0].shape();
    out.back() = 7;
    const Variable y = reshape(product(reshape(x[0], flat), x[1], false, true), out);
    return x.size() > 2 ? add(y, x[2]) : y;
  };
  for (const Shape& shape : inputs) {
    INFO(to_string(shape));
    run_op_case({.name = "linear",
                 .shapes = {shape, {7, 5}, {7}},
                 .run = [](const Inputs& x) { return linear(x[0], x[1], x[2]); },
                 .reference = reference,
                 .cuda = false});
    run_op_case({.name = "linear without bias",
                 .shapes = {shape, {7, 5}},
                 .run = [](const Inputs& x) { return linear(x[0], x[1], {}); },
                 .reference = reference,
                 .cuda = false});
  }
  const Tensor x = sample({4, 5}, 1, "x"), w = sample({7, 5}, 1, "w"), b = sample({5}, 1, "b");
  CHECK_THROWS_AS(linear(x, sample({7, 4}, 1, "w"), {}), Error);
  CHECK_THROWS_AS(linear(x, w, b), Error);
}

TEST_CASE("a weight used twice gets the sum of its gradients") {
  run_op_case({.name = "linear twice",
               .shapes = {{3, 4}, {4, 4}, {4}},
               .run = [](const Inputs& x) { return linear(linear(x[0], x[1], x[2]), x[1], x[2]); },
               .reference =
                   [](const Inputs& x) {
                     const Variable y = add(product(x[0], x[1], false, true), x[2]);
                     return add(product(y, x[1], false, true), x[2]);
                   },
               .cuda = false});
}

TEST_CASE("center passes the op case along every axis") {
  for (int axis : {0, 1, 2, -1}) {
    INFO("axis " << axis);
    run_op_case(
        {.name = "center",
         .shapes = {{3, 5, 4}},
         .run = [axis](const Inputs& x) { return center(x[0], axis); },
         .reference = [axis](const Inputs& x) { return sub(x[0], mean(x[0], {axis}, true)); },
         .cuda = false});
  }
  const Tensor x = sample({65, 300}, 1, "x", DType::f32);
  const Variable y = center(x, 0);
  CHECK(difference(mean(y, {0}).value(), Tensor::zeros({300}, DType::f32)) <= 1e-6);
  CHECK_THROWS_AS(center(x, 2), Error);
}
