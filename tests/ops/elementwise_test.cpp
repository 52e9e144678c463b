#include "autograd/ops/elementwise.h"

#include "autograd/ops/reduce.h"
#include "core/kernels/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

using namespace cbwc;
using namespace cbwc::testing;
using Inputs = std::vector<Variable>;

namespace {

// Widens an operand beforehand, so that the reference itself broadcasts nothing.
Variable ones(const Shape& shape, const Variable& like) {
  return Tensor::full(shape, 1.0, like.dtype(), like.value().device());
}

}  // namespace

TEST_CASE("add, sub and mul pass the op case for every way to broadcast") {
  const std::vector<std::pair<Shape, Shape>> shapes{
      {{3, 4}, {3, 4}},    {{3, 4}, {4}},     {{4}, {3, 4}}, {{3, 1}, {1, 4}},
      {{2, 3, 4}, {3, 1}}, {{5}, {}},         {{}, {}},      {{2, 1, 3}, {4, 1}},
      {{0, 3}, {3}},       {{7, 65}, {7, 1}}, {{1, 1}, {1}}, {{2, 3, 33}, {1}}};
  for (const auto& [a, b] : shapes) {
    INFO(to_string(a) << " and " << to_string(b));
    const Shape out = broadcast_shape(a, b, "test");
    const auto widened = [out](const Variable& x) { return mul(x, ones(out, x)); };
    run_op_case({.name = "add",
                 .shapes = {a, b},
                 .run = [](const Inputs& x) { return add(x[0], x[1]); },
                 .reference =
                     [widened](const Inputs& x) {
                       return sub(widened(x[0]), scale(widened(x[1]), -1.0));
                     }});
    run_op_case({.name = "sub",
                 .shapes = {a, b},
                 .run = [](const Inputs& x) { return sub(x[0], x[1]); },
                 .reference =
                     [widened](const Inputs& x) {
                       return add(widened(x[0]), scale(widened(x[1]), -1.0));
                     }});
    run_op_case(
        {.name = "mul",
         .shapes = {a, b},
         .run = [](const Inputs& x) { return mul(x[0], x[1]); },
         .reference = [widened](const Inputs& x) { return mul(widened(x[0]), widened(x[1])); }});
  }
}

TEST_CASE("bad operands are refused by name") {
  const Tensor a = sample({2, 3}, 1, "a"), b = sample({2, 4}, 1, "b");
  run_op_case({.name = "scale",
               .shapes = {{3, 5}},
               .run = [](const Inputs& x) { return scale(x[0], -2.5); },
               .reference =
                   [](const Inputs& x) {
                     return mul(x[0], Variable(Tensor::full({}, -2.5, x[0].dtype(),
                                                            x[0].value().device())));
                   },
               .bad_inputs = {{[&] { add(a, b); }, "(2, 3) and (2, 4) do not broadcast"},
                              {[&] { mul(a, a.to(DType::f32)); }, "float64 and float32"},
                              {[&] { sub(a.to(DType::i32), a.to(DType::i32)); }, "got int32"},
                              {[&] { scale(a.to(DType::i64), 2.0); }, "got int64"}}});
}

TEST_CASE("values are right on strided views and long rows") {
  const Tensor x = sample({40, 1000}, 3, "x"), y = sample({1000, 40}, 3, "y");
  const Tensor got = sub(x, y.transpose(0, 1)).value();
  double worst = 0;
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t j = 0; j < 1000; ++j) {
      const double want = x.data<double>()[i * 1000 + j] - y.data<double>()[j * 40 + i];
      worst = std::max(worst, std::abs(got.data<double>()[i * 1000 + j] - want));
    }
  }
  CHECK(worst == 0.0);

  Tensor total = sample({100003}, 4, "total");
  const Tensor before = total.clone(), more = sample({100003}, 5, "more");
  cpu::add_into(total.data<double>(), more.data<double>(), total.numel());
  CHECK(same_bits(total, add(before, more).value()));
}

TEST_CASE("the same variable on both sides gets both gradients") {
  const Evaluation got =
      evaluate([](const Inputs& x) { return mul(x[0], x[0]); }, {sample({4, 5}, 1, "x")});
  const Evaluation want =
      evaluate([](const Inputs& x) { return scale(mul(x[0], Variable(x[0].value())), 2.0); },
               {sample({4, 5}, 1, "x")});
  CHECK(difference(got.gradients[0], want.gradients[0]) < kTolerance64);
  const Evaluation added =
      evaluate([](const Inputs& x) { return add(x[0], x[0]); }, {sample({4, 5}, 1, "x")});
  const Evaluation doubled =
      evaluate([](const Inputs& x) { return scale(x[0], 2.0); }, {sample({4, 5}, 1, "x")});
  CHECK(difference(added.gradients[0], doubled.gradients[0]) == 0.0);
}
