#include "autograd/ops/rotary.h"

#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

namespace cbwc::testing {
namespace {

// x cos + rotate_half(x) sin on the turned channels, from small ops.
Variable reference(const Variable& x, const RotaryOptions& o) {
  const int64_t r = o.channels == 0 ? x.size(3) : o.channels, half = r / 2, t = x.size(1);
  std::vector<double> cosines, sines;
  for (int64_t p = 0; p < t; ++p)
    for (int64_t c = 0; c < r; ++c) {
      const double turn = std::pow(o.base, -2.0 * static_cast<double>(c % half) / r);
      cosines.push_back(std::cos(static_cast<double>(p + o.first) * turn));
      sines.push_back(std::sin(static_cast<double>(p + o.first) * turn));
    }
  const Tensor cosine = Tensor::from(cosines, {t, 1, r}).to(x.dtype());
  const Tensor sine = Tensor::from(sines, {t, 1, r}).to(x.dtype());
  const Variable turned = slice(x, 3, 0, r);
  const Variable rotated =
      concat({scale(slice(turned, 3, half, r), -1), slice(turned, 3, 0, half)}, 3);
  const Variable y = add(mul(turned, cosine), mul(rotated, sine));
  return r == x.size(3) ? y : concat({y, slice(x, 3, r, x.size(3))}, 3);
}

}  // namespace

TEST_CASE("rotary op cases") {
  for (const RotaryOptions& o :
       {RotaryOptions{}, RotaryOptions{4, 0, 100}, RotaryOptions{2, 7, 10}})
    for (const Shape& shape : {Shape{2, 5, 3, 6}, Shape{1, 1, 1, 8}, Shape{3, 33, 2, 16}}) {
      OpCase c;
      c.name = "rotary";
      c.shapes = {shape};
      c.run = [o](const auto& in) { return rotary(in[0], o); };
      c.reference = [o](const auto& in) { return reference(in[0], o); };
      c.cuda = false;
      const Tensor x = sample(shape, 1, "x");
      c.bad_inputs = {{[&] { rotary(x, {3}); }, "even"},
                      {[&] { rotary(x, {18}); }, "at most"},
                      {[&] {
                         rotary(x, {2, -1});
                       },
                       "at least 0"},
                      {[&] {
                         rotary(x.reshape({-1, 2}), {});
                       },
                       "(B, T, H, D)"}};
      run_op_case(c);
    }
}

TEST_CASE("rotary makes products of queries and keys depend on the distance alone") {
  const Tensor q = sample({1, 1, 1, 8}, 1, "q"), k = sample({1, 1, 1, 8}, 1, "k");
  const auto product = [&](int64_t at_q, int64_t at_k) {
    return sum(mul(rotary(q, {6, at_q}), rotary(k, {6, at_k}))).value().item();
  };
  CHECK(product(9, 4) == Approx(product(25, 20)).epsilon(1e-12));
  CHECK(std::abs(product(9, 4) - product(4, 9)) > 1e-3);
  CHECK(same_bits(rotary(q, {6, 0}).value(), q));
}

}  // namespace cbwc::testing
