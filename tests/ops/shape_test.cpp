#include "autograd/ops/shape.h"

#include <numeric>

#include "autograd/ops/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

using namespace cbwc;
using namespace cbwc::testing;
using Inputs = std::vector<Variable>;

namespace {

Tensor counting(const Shape& shape) {
  std::vector<double> values(static_cast<size_t>(numel(shape)));
  std::iota(values.begin(), values.end(), 0.0);
  return Tensor::from(values, shape);
}

std::vector<double> flat(const Variable& x) { return x.value().contiguous().to_vector<double>(); }

// Multiplying by different weights before and after shows a gradient that lands in a wrong place.
Variable weighted(const Variable& x) {
  return mul(x, counting(x.shape()).to(x.dtype()).to(x.value().device()));
}

}  // namespace

TEST_CASE("values of the shape ops") {
  const Tensor x = counting({2, 3});  // 0 1 2 / 3 4 5
  CHECK(flat(reshape(x, {3, -1})) == std::vector<double>{0, 1, 2, 3, 4, 5});
  CHECK(flat(permute(x, {1, 0})) == std::vector<double>{0, 3, 1, 4, 2, 5});
  CHECK(flat(slice(x, 1, 1, 3)) == std::vector<double>{1, 2, 4, 5});
  CHECK(flat(concat({x, slice(x, -1, 0, 1)}, 1)) == std::vector<double>{0, 1, 2, 0, 3, 4, 5, 3});
  CHECK(flat(roll(x, {1}, {1})) == std::vector<double>{2, 0, 1, 5, 3, 4});
  CHECK(flat(roll(x, {-1, 3}, {1, 0})) == std::vector<double>{4, 5, 3, 1, 2, 0});
  CHECK(flat(pad(x, 1, 1, 2, -1)) == std::vector<double>{-1, 0, 1, 2, -1, -1, -1, 3, 4, 5, -1, -1});
}

TEST_CASE("shape ops pass the op case") {
  const auto run = [](const char* name, std::vector<Shape> shapes, TensorFunction f,
                      TensorFunction reference = {}) {
    run_op_case({.name = name,
                 .shapes = std::move(shapes),
                 .run = [f](const Inputs& x) { return weighted(f(x)); },
                 .reference = reference ? TensorFunction([reference](const Inputs& x) {
                   return weighted(reference(x));
                 })
                                        : TensorFunction{}});
  };
  run("reshape", {{2, 3, 4}}, [](const Inputs& x) { return reshape(x[0], {4, 6}); });
  run("reshape of a permuted view", {{2, 3, 4}}, [](const Inputs& x) {
    return reshape(permute(x[0], {2, 0, 1}), {4, 6});
  });
  run(
      "permute", {{2, 3, 4}},
      [](const Inputs& x) {
        return permute(x[0], {2, 0, 1});
      },
      [](const Inputs& x) {
        return permute(permute(x[0], {0, 2, 1}), {1, 0, 2});
      });
  run(
      "slice", {{2, 5, 3}}, [](const Inputs& x) { return slice(x[0], 1, 1, 4); },
      [](const Inputs& x) {
        return concat({slice(x[0], 1, 1, 2), slice(x[0], 1, 2, 3), slice(x[0], 1, 3, 4)}, 1);
      });
  run("overlapping slices", {{6}},
      [](const Inputs& x) { return mul(slice(x[0], 0, 0, 4), slice(x[0], 0, 2, 6)); });
  run(
      "concat", {{2, 3}, {2, 1}, {2, 2}}, [](const Inputs& x) { return concat(x, 1); },
      [](const Inputs& x) {
        return add(pad(x[0], 1, 0, 3), add(pad(x[1], 1, 3, 2), pad(x[2], 1, 4, 0)));
      });
  run("concat of one, twice", {{2, 3}}, [](const Inputs& x) {
    return concat({concat({x[0]}, 0), x[0]}, 0);
  });
  run(
      "roll", {{4, 5}},
      [](const Inputs& x) {
        return roll(x[0], {2, -7}, {0, 1});
      },
      [](const Inputs& x) {
        const Variable y = concat({slice(x[0], 0, 2, 4), slice(x[0], 0, 0, 2)}, 0);
        return concat({slice(y, 1, 2, 5), slice(y, 1, 0, 2)}, 1);
      });
  run("pad", {{3, 2}}, [](const Inputs& x) { return pad(x[0], 0, 2, 1, 4.0); });
}

TEST_CASE("shape ops refuse what does not fit") {
  const Tensor x = counting({2, 3});
  CHECK_THROWS_AS(reshape(x, {4, 2}), Error);
  CHECK_THROWS_AS(permute(x, {0, 0}), Error);
  CHECK_THROWS_AS(permute(x, {0}), Error);
  CHECK_THROWS_AS(slice(x, 1, 2, 4), Error);
  CHECK_THROWS_AS(slice(x, 2, 0, 1), Error);
  CHECK_THROWS_AS(concat({}, 0), Error);
  CHECK_THROWS_AS(concat({x, counting({3, 3})}, 1), Error);
  CHECK_THROWS_AS(concat({x, counting({2})}, 0), Error);
  CHECK_THROWS_AS(roll(x, {1}, {0, 1}), Error);
  CHECK_THROWS_AS(pad(x, 0, -1, 0), Error);
}
