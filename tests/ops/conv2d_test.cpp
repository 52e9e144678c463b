#include "autograd/ops/conv2d.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

using namespace cbwc;
using namespace cbwc::testing;
using Inputs = std::vector<Variable>;

namespace {

// Place by place, group by group: y[b, o, p, q] = sum over the patch of x times w[o], plus b[o].
Variable naive(const Inputs& in, const Conv2dOptions& o) {
  const Variable x = pad(pad(in[0], 2, o.padding, o.padding), 3, o.padding, o.padding);
  const Variable& w = in[1];
  const int64_t batch = x.size(0), out = w.size(0) / o.groups, cin = w.size(1);
  const int64_t kh = w.size(2), kw = w.size(3), patch = cin * kh * kw;
  const int64_t oh = (x.size(2) - kh) / o.stride + 1, ow = (x.size(3) - kw) / o.stride + 1;
  std::vector<Variable> groups;
  for (int64_t g = 0; g < o.groups; ++g) {
    const Variable image = slice(x, 1, g * cin, (g + 1) * cin);
    const Variable weight = reshape(slice(w, 0, g * out, (g + 1) * out), {1, out, patch});
    std::vector<Variable> places;
    for (int64_t p = 0; p < oh; ++p) {
      for (int64_t q = 0; q < ow; ++q) {
        const Variable part = slice(slice(image, 2, p * o.stride, p * o.stride + kh), 3,
                                    q * o.stride, q * o.stride + kw);
        const Variable row = reshape(part, {batch, 1, patch});
        places.push_back(sum(mul(row, weight), {2}, true));
      }
    }
    groups.push_back(reshape(concat(places, 2), {batch, out, oh, ow}));
  }
  const Variable y = concat(groups, 1);
  return in.size() > 2 ? add(y, reshape(in[2], {w.size(0), 1, 1})) : y;
}

OpCase conv_case(std::vector<Shape> shapes, const Conv2dOptions& o) {
  return {.name = "conv2d " + to_string(shapes[0]) + " " + to_string(shapes[1]) + " stride " +
                  std::to_string(o.stride) + " padding " + std::to_string(o.padding) + " groups " +
                  std::to_string(o.groups),
          .shapes = std::move(shapes),
          .run =
              [o](const Inputs& in) {
                return conv2d(in[0], in[1], in.size() > 2 ? in[2] : Variable(), o);
              },
          .reference = [o](const Inputs& in) { return naive(in, o); },
          .cuda = false};
}

}  // namespace

TEST_CASE("conv2d passes the op case") {
  run_op_case(conv_case({{2, 3, 5, 6}, {4, 3, 3, 3}, {4}}, {}));
  run_op_case(conv_case({{2, 3, 5, 6}, {4, 3, 3, 3}}, {.stride = 2, .padding = 1}));
  run_op_case(conv_case({{1, 2, 5, 4}, {3, 2, 3, 2}, {3}}, {.stride = 3, .padding = 2}));
  run_op_case(conv_case({{2, 3, 4, 6}, {5, 3, 2, 2}, {5}}, {.stride = 2}));  // patches
  run_op_case(conv_case({{2, 3, 4, 3}, {5, 3, 1, 1}, {5}}, {}));             // pointwise
  run_op_case(conv_case({{2, 3, 4, 3}, {5, 3, 1, 1}, {5}}, {.padding = 1}));
  run_op_case(conv_case({{2, 4, 5, 5}, {6, 2, 3, 3}, {6}}, {.padding = 1, .groups = 2}));
  run_op_case(conv_case({{2, 4, 5, 5}, {4, 1, 3, 3}, {4}}, {.padding = 1, .groups = 4}));
  run_op_case(conv_case({{1, 1, 1, 1}, {1, 1, 3, 3}}, {.padding = 3}));  // mostly outside
}

TEST_CASE("conv2d of no samples gives no rows and zero gradients") {
  const Evaluation e = evaluate(
      [](const Inputs& in) { return conv2d(in[0], in[1], in[2]); },
      {Tensor::zeros({0, 3, 4, 4}, DType::f64), sample({2, 3, 3, 3}, 1, "w"), sample({2}, 1, "b")});
  CHECK(e.output.shape() == Shape{0, 2, 2, 2});
  CHECK(difference(e.gradients[1], Tensor::zeros({2, 3, 3, 3}, DType::f64)) == 0);
  CHECK(difference(e.gradients[2], Tensor::zeros({2}, DType::f64)) == 0);
}

TEST_CASE("a weight used by two convolutions gets the sum of its gradients") {
  run_op_case({.name = "conv2d twice",
               .shapes = {{2, 3, 4, 4}, {3, 3, 3, 3}, {3}},
               .run =
                   [](const Inputs& in) {
                     const Conv2dOptions o{.padding = 1};
                     return conv2d(conv2d(in[0], in[1], in[2], o), in[1], in[2], o);
                   },
               .reference =
                   [](const Inputs& in) {
                     const Conv2dOptions o{.padding = 1};
                     return naive({naive(in, o), in[1], in[2]}, o);
                   },
               .cuda = false});
}

TEST_CASE("conv2d names bad inputs") {
  const Tensor x = sample({2, 4, 5, 5}, 1, "x"), w = sample({6, 4, 3, 3}, 1, "w");
  const Tensor b = sample({6}, 1, "b");
  OpCase c = conv_case({{2, 4, 5, 5}, {6, 4, 3, 3}, {6}}, {});
  c.bad_inputs = {{[=] {
                     conv2d(sample({4, 5, 5}, 1, "x"), w, b);
                   },
                   "x has the shape (4, 5, 5)"},
                  {[=] {
                     conv2d(x, sample({6, 4}, 1, "w"), b);
                   },
                   "w has the shape (6, 4)"},
                  {[=] {
                     conv2d(x, sample({6, 3, 3, 3}, 1, "w"), b);
                   },
                   "expected 4 input channels"},
                  {[=] { conv2d(x, w, sample({5}, 1, "b")); }, "b has the shape (5)"},
                  {[=] { conv2d(x, w, b, {.groups = 3}); }, "3 groups do not divide"},
                  {[=] { conv2d(x, w, b, {.stride = 0}); }, "stride"},
                  {[=] { conv2d(x, w, b, {.padding = -1}); }, "padding"},
                  {[=] {
                     conv2d(x, sample({6, 4, 6, 3}, 1, "w"), b);
                   },
                   "does not fit"},
                  {[=] {
                     conv2d(x, sample({6, 4, 3, 3}, 1, "w", DType::f32), b);
                   },
                   "one dtype"}};
  run_op_case(c);
}
