#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/layer_norm.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/rms_norm.h"
#include "core/kernels/layer_norm.h"
#include "core/kernels/rms_norm.h"
#include "core/parallel.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

using namespace cbwc;
using namespace cbwc::testing;
using Inputs = std::vector<Variable>;

namespace {

constexpr double kEps = 1e-5;
// The published values have nine digits; float32 has seven.
constexpr double kPublished = 2e-6;

template <class T>
struct Norm {
  std::vector<T> y, dx, dgamma, dbeta;
  T rstd0;
};

template <class T>
Norm<T> layer_norm_of(std::vector<T> x, int64_t cols, double eps, std::vector<T> gamma = {},
                      std::vector<T> beta = {}, std::vector<T> dy = {}) {
  const int64_t rows = static_cast<int64_t>(x.size()) / cols;
  Norm<T> r{std::vector<T>(x.size()), std::vector<T>(x.size()), std::vector<T>(cols, T(NAN)),
            std::vector<T>(cols, T(NAN)), T(0)};
  std::vector<T> mean(rows), rstd(rows);
  const T* g = gamma.empty() ? nullptr : gamma.data();
  const T* b = beta.empty() ? nullptr : beta.data();
  cpu::layer_norm_forward<T>(
      {x.data(), g, b, r.y.data(), mean.data(), rstd.data(), rows, cols, eps});
  if (rows > 0) r.rstd0 = rstd[0];
  if (dy.empty() && rows > 0) return r;
  cpu::layer_norm_backward<T>({dy.data(), x.data(), g, mean.data(), rstd.data(), r.dx.data(),
                               r.dgamma.data(), r.dbeta.data(), false, false, rows, cols});
  return r;
}

template <class T>
Norm<T> rms_norm_of(std::vector<T> x, int64_t cols, double eps, std::vector<T> gamma = {},
                    std::vector<T> dy = {}) {
  const int64_t rows = static_cast<int64_t>(x.size()) / cols;
  Norm<T> r{std::vector<T>(x.size()), std::vector<T>(x.size()), std::vector<T>(cols, T(NAN)),
            std::vector<T>(cols, T(NAN)), T(0)};
  std::vector<T> rstd(rows);
  const T* g = gamma.empty() ? nullptr : gamma.data();
  cpu::rms_norm_forward<T>({x.data(), g, nullptr, r.y.data(), rstd.data(), rows, cols, eps});
  if (dy.empty() && rows > 0) return r;
  cpu::rms_norm_backward<T>({dy.data(), x.data(), g, rstd.data(), r.dx.data(), r.dgamma.data(),
                             r.dbeta.data(), false, false, rows, cols});
  return r;
}

template <class T>
void check_near(const std::vector<T>& got, const std::vector<double>& want,
                double tolerance = kPublished) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i << ": " << got[i] << ", expected " << want[i]);
    CHECK(std::abs(static_cast<double>(got[i]) - want[i]) <=
          tolerance * std::max(1.0, std::abs(want[i])));
  }
}

Variable constant(const Variable& like, double value) {
  return Tensor::full({}, value, like.dtype(), like.value().device());
}

// x / sqrt(mean(x^2) + eps) from small ops: Newton's steps find the inverse root, and the tape
// differentiates them.
Variable rms_reference(const Variable& x) {
  const Variable v = add(mean(mul(x, x), {-1}, true), constant(x, kEps));
  // Newton's iteration for v^(-1/2) converges from any start below sqrt(3 / v).
  Variable r = constant(x, 0.05);
  for (int i = 0; i < 60; ++i) {
    r = scale(mul(r, sub(constant(x, 3.0), mul(v, mul(r, r)))), 0.5);
  }
  return mul(x, r);
}
Variable layer_reference(const Variable& x) { return rms_reference(sub(x, mean(x, {-1}, true))); }

}  // namespace

TEST_CASE("layer_norm and rms_norm pass the op case at every width and row count") {
  const std::vector<Shape> shapes{{3, 2},  {1, 5},  {2, 3, 7},  {4, 16},  {5, 33},
                                  {7, 64}, {3, 65}, {130, 129}, {2, 768}, {33, 1023}};
  for (const Shape& shape : shapes) {
    INFO(to_string(shape));
    const Shape cols{shape.back()};
    // Rows of two elements divide by a difference that can be small; Newton's steps add roundings.
    const double tolerance64 = 1e-11, tolerance32 = shape.back() < 8 ? 1e-3 : 1e-4;
    run_op_case(
        {.name = "layer_norm",
         .shapes = {shape, cols, cols},
         .run = [](const Inputs& x) { return layer_norm(x[0], x[1], x[2], kEps); },
         .reference = [](const Inputs& x) { return add(mul(layer_reference(x[0]), x[1]), x[2]); },
         .tolerance64 = tolerance64,
         .tolerance32 = tolerance32,
         .gradient_tolerance = 1e-6});
    run_op_case(
        {.name = "rms_norm",
         .shapes = {shape, cols, cols},
         .run = [](const Inputs& x) { return rms_norm(x[0], x[1], x[2], kEps); },
         .reference = [](const Inputs& x) { return add(mul(rms_reference(x[0]), x[1]), x[2]); },
         .tolerance64 = tolerance64,
         .tolerance32 = tolerance32,
         .gradient_tolerance = 1e-6});
  }
}

TEST_CASE("gamma and beta may be missing, and bad ones are named") {
  const Tensor x = sample({4, 6}, 1, "x"), wrong = sample({5}, 1, "wrong");
  run_op_case({.name = "layer_norm without gamma and beta",
               .shapes = {{4, 6}},
               .run = [](const Inputs& v) { return layer_norm(v[0], {}, {}, kEps); },
               .reference = [](const Inputs& v) { return layer_reference(v[0]); },
               .bad_inputs = {{[=] { layer_norm(x, wrong, {}, kEps); }, "layer_norm: gamma"},
                              {[=] { layer_norm(x, {}, wrong, kEps); }, "layer_norm: beta"}},
               .tolerance64 = 1e-11,
               .tolerance32 = 1e-4});
  run_op_case({.name = "rms_norm with gamma only",
               .shapes = {{4, 6}, {6}},
               .run = [](const Inputs& v) { return rms_norm(v[0], v[1], {}, kEps); },
               .reference = [](const Inputs& v) { return mul(rms_reference(v[0]), v[1]); },
               .bad_inputs = {{[=] { rms_norm(x, wrong, {}, kEps); }, "rms_norm: gamma"}},
               .tolerance64 = 1e-11,
               .tolerance32 = 1e-4});
}

TEST_CASE("P01-P03: large means and constant rows") {
  check_near(layer_norm_of<float>({40000, 40001, 40002, 40003}, 4, kEps).y,
             {-1.34163542, -0.44721181, 0.44721181, 1.34163542});
  std::vector<float> wide(32768);
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = 100.f + (i % 2 == 0 ? 0.01f : -0.01f);
  const auto y = layer_norm_of<float>(wide, 32768, kEps).y;
  for (int i : {0, 1, 32767}) CHECK(std::abs(std::abs(y[i]) - 0.9535) <= 0.005 * 0.9535);
  const auto flat =
      layer_norm_of<float>(std::vector<float>(256, 1234.f), 256, kEps, std::vector<float>(256, 2.f),
                           std::vector<float>(256, 3.f));
  CHECK(flat.y == std::vector<float>(256, 3.f));
  check_near(std::vector<float>{flat.rstd0}, {316.2277660});
  check_near(layer_norm_of<double>({1234, 1234, 1234, 1234}, 4, kEps, {}, {}, {1, 0, 0, 0}).dx,
             {237.170825, -79.0569415, -79.0569415, -79.0569415}, 1e-8);
}

TEST_CASE("P06-P10: float32's range and eps") {
  check_near(rms_norm_of<float>({1e20f, 2e20f, 2e20f, 0}, 4, kEps).y,
             {0.6666667, 1.3333333, 1.3333333, 0});
  check_near(layer_norm_of<float>({1e20f, 2e20f, 2e20f, 0}, 4, kEps).y,
             {-0.3015113, 0.9045340, 0.9045340, -1.5075567});
  std::vector<float> spike(64, 0.f);
  spike[0] = 8;
  CHECK(std::abs(rms_norm_of<float>(spike, 64, 0.1).y[0] - 7.62770071) <= 1e-5);
  check_near(layer_norm_of<float>({1e-3f, -1e-3f}, 2, kEps).y, {0.301511345, -0.301511345});
  check_near(rms_norm_of<float>({0.02f, -0.02f}, 2, 1e-6).y, {0.998752339, -0.998752339});
  check_near(layer_norm_of<float>({1e-4f, -1e-4f}, 2, 1e-12).y, {0.99995, -0.99995});
}

TEST_CASE("P11-P15: width 1, no rows, zero gains, gradients of the parameters alone") {
  const auto one = layer_norm_of<float>({1e6f}, 1, kEps, {2}, {3}, {5});
  CHECK((one.y[0] == 3 && one.dx[0] == 0 && one.dgamma[0] == 0 && one.dbeta[0] == 5));
  const auto none = layer_norm_of<float>({}, 8, kEps);
  CHECK((none.dgamma == std::vector<float>(8, 0.f) && none.dbeta == std::vector<float>(8, 0.f)));
  CHECK(rms_norm_of<float>({}, 8, kEps).dgamma == std::vector<float>(8, 0.f));
  const auto rms = rms_norm_of<float>({1, 2, 3, 4}, 4, kEps, {0, 1, 1, 1}, {1, 1, 1, 1});
  check_near(rms.dgamma, {0.365148347, 0.730296695, 1.095445042, 1.460593389});
  check_near(rms.dx, {-0.109544490, 0.146059368, 0.036514879, -0.073029611});
  const auto ln = layer_norm_of<float>({1, 2, 3, 4}, 4, kEps, {0, 1, 1, 1}, {}, {1, 1, 1, 1});
  check_near(ln.dgamma, {-1.341635420, -0.447211807, 0.447211807, 1.341635420});
  const auto sum = layer_norm_of<float>({1, 2, 3, 4}, 4, kEps, {}, {}, {1, 1, 1, 1});
  check_near(sum.dx, {0, 0, 0, 0}, 1e-7);

  Tape tape;
  TapeScope scope(&tape);
  const Variable gamma = tape.leaf(Tensor::full({4}, 1, DType::f32), true);
  const Variable x = Tensor::from<float>({1, 2, 3, 4}, {1, 4});
  const Variable dy = Tensor::from<float>({1, 0, 2, -1}, {1, 4});
  tape.backward(cbwc::sum(mul(layer_norm(x, gamma, {}, kEps), dy)));
  check_near(tape.grad(gamma).to_vector<float>(), {-1.34163542, 0, 0.89442361, -1.34163542});
}

TEST_CASE("P16-P18, P20: many rows, wide rows, rows that are not finite") {
  const int64_t rows = 65537;
  std::vector<double> x(rows * 6);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 1 : -1;
  const auto many = layer_norm_of<double>(x, 6, kEps, {}, {}, std::vector<double>(rows * 6, 1.0));
  for (int j = 0; j < 6; ++j) {
    CHECK(std::abs(many.dgamma[j] - (j % 2 == 0 ? 65536.672318 : -65536.672318)) <= 1e-5);
    CHECK(many.dbeta[j] == 65537);
  }
  std::vector<double> wide(70001);
  double mean = 0, square = 0;
  for (size_t i = 0; i < wide.size(); ++i) mean += wide[i] = static_cast<double>(i % 7);
  mean /= 70001;
  for (double v : wide) square += (v - mean) * (v - mean);
  const auto y = layer_norm_of<double>(wide, 70001, kEps).y;
  const double want = (wide[70000] - mean) / std::sqrt(square / 70001 + kEps);
  CHECK(std::abs(y[70000] - want) <= 1e-9);

  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> odd{1, 2, 3, 4, 1, NAN, 3, 4, 1, inf, 3, 4};
  const auto ln = layer_norm_of<float>(odd, 4, kEps).y;
  CHECK(std::abs(ln[0] + 1.34163542) <= kPublished);
  for (int i = 4; i < 12; ++i) CHECK(std::isnan(ln[i]));
  const auto rms = rms_norm_of<float>(odd, 4, kEps).y;
  for (int i = 4; i < 8; ++i) CHECK(std::isnan(rms[i]));
  CHECK((rms[8] == 0 && std::isnan(rms[9]) && rms[10] == 0 && rms[11] == 0));
}

TEST_CASE("P19: the same bits 20 times and for any thread count") {
  const int64_t rows = 1000, cols = 65;
  const auto x = sample({rows, cols}, 1, "x", DType::f32).to_vector<float>();
  const auto dy = sample({rows, cols}, 1, "dy", DType::f32).to_vector<float>();
  const auto gamma = sample({cols}, 1, "gamma", DType::f32).to_vector<float>();
  const auto all = [&] {
    const auto ln = layer_norm_of<float>(x, cols, kEps, gamma, gamma, dy);
    const auto rms = rms_norm_of<float>(x, cols, kEps, gamma, dy);
    std::vector<std::vector<float>> parts{ln.y,  ln.dx,  ln.dgamma, ln.dbeta,
                                          rms.y, rms.dx, rms.dgamma};
    return parts;
  };
  const auto first = all();
  const int before = threads();
  for (int i = 0; i < 20; ++i) {
    set_threads(1 + i % 4);
    CHECK(all() == first);
  }
  set_threads(before);
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> zeros(4, 0.f), minus(4, -1.f);
    CHECK(rms_norm_of<float>(zeros, 4, kEps, {}, minus).dgamma == zeros);
  }
}
