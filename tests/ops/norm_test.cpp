#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/layer_norm.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/rms_norm.h"
#include "core/kernels/layer_norm.h"
#include "core/kernels/rms_norm.h"
#include "core/parallel.h"
#include "core/rng.h"
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
    run_op_case(
        {.name = "layer_norm",
         .shapes = {shape, cols, cols},
         .run = [](const Inputs& x) { return layer_norm(x[0], x[1], x[2], kEps); },
         .reference = [](const Inputs& x) { return add(mul(layer_reference(x[0]), x[1]), x[2]); }});
    run_op_case(
        {.name = "rms_norm",
         .shapes = {shape, cols, cols},
         .run = [](const Inputs& x) { return rms_norm(x[0], x[1], x[2], kEps); },
         .reference = [](const Inputs& x) { return add(mul(rms_reference(x[0]), x[1]), x[2]); }});
  }
}

TEST_CASE("gamma and beta may be missing, and bad ones are named") {
  const Tensor x = sample({4, 6}, 1, "x"), wrong = sample({5}, 1, "wrong");
  run_op_case({.name = "layer_norm without gamma and beta",
               .shapes = {{4, 6}},
               .run = [](const Inputs& v) { return layer_norm(v[0], {}, {}, kEps); },
               .reference = [](const Inputs& v) { return layer_reference(v[0]); },
               .bad_inputs = {{[=] { layer_norm(x, wrong, {}, kEps); }, "layer_norm: gamma"},
                              {[=] { layer_norm(x, {}, wrong, kEps); }, "layer_norm: beta"}}});
  run_op_case({.name = "rms_norm with gamma only",
               .shapes = {{4, 6}, {6}},
               .run = [](const Inputs& v) { return rms_norm(v[0], v[1], {}, kEps); },
               .reference = [](const Inputs& v) { return mul(rms_reference(v[0]), v[1]); },
               .bad_inputs = {{[=] { rms_norm(x, wrong, {}, kEps); }, "rms_norm: gamma"}}});
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
  const std::vector<float> zeros(64, 0.f), ones(64, 1.f);
  for (const double eps : {1e-12, 1e-6, 0.1}) {  // 0/0 where eps is scaled or lost
    const auto zero = rms_norm_of<float>(zeros, 64, eps, ones, ones);
    CHECK(zero.y == zeros);
    for (float v : zero.dx) CHECK(v == Approx(1 / std::sqrt(eps)).epsilon(1e-6));
  }
}

// Estimates of a mean must not be misled by a beginning that is far from the rest, in
// some rows of a group and not in others.
TEST_CASE("LayerNorm of rows whose beginning is unlike the rest") {
  for (int64_t cols : {256, 300, 769}) {
    const int64_t rows = 9;
    Rng rng(3, "rows");
    Tensor noise = Tensor::empty({rows, cols}, DType::f64);
    fill_normal(noise, 100.0, 1.0, rng);
    std::vector<float> x;
    const double* v = noise.data<double>();
    for (int64_t i = 0; i < rows * cols; ++i) {
      const int64_t r = i / cols, c = i % cols;
      x.push_back(static_cast<float>(v[i] + (r % 3 == 1 && c < 64 ? 1000.0 : 0.0)));
    }
    const auto got = layer_norm_of<float>(x, cols, kEps);
    for (int64_t r = 0; r < rows; ++r) {
      double mean = 0, squares = 0;
      for (int64_t c = 0; c < cols; ++c) mean += double(x[size_t(r * cols + c)]) / double(cols);
      for (int64_t c = 0; c < cols; ++c)
        squares += std::pow(double(x[size_t(r * cols + c)]) - mean, 2);
      const double rstd = 1 / std::sqrt(squares / double(cols) + kEps);
      double worst = 0;
      for (int64_t c = 0; c < cols; ++c) {
        const size_t i = size_t(r * cols + c);
        worst = std::max(worst, std::abs(double(got.y[i]) - (double(x[i]) - mean) * rstd));
      }
      INFO("row " << r << " of " << cols);
      CHECK(worst < 2e-5);  // x itself has 24 bits: 1e-5 of the deviation at a mean of 100
    }
    // Alone, every row has the bits that it has among the others.
    for (int64_t r = 0; r < rows; ++r) {
      const std::vector<float> row(x.begin() + r * cols, x.begin() + (r + 1) * cols);
      const auto alone = layer_norm_of<float>(row, cols, kEps);
      CHECK(std::equal(alone.y.begin(), alone.y.end(), got.y.begin() + r * cols));
    }
  }
}

TEST_CASE("P11-P15: width 1, no rows, zero gains, gradients of the parameters alone") {
  const auto one = layer_norm_of<float>({1e6f}, 1, kEps, {2}, {3}, {5});
  CHECK((one.y[0] == 3 && one.dx[0] == 0 && one.dgamma[0] == 0 && one.dbeta[0] == 5));
  for (float gain : {0.3f, -1.7f, 1e3f}) {
    for (float dy : {0.1f, 3.7f, -1e4f}) {
      const auto narrow =
          layer_norm_of<float>({0.7f, 1e6f, -3.3f}, 1, kEps, {gain}, {3}, {dy, dy, dy});
      CHECK(narrow.dx == std::vector<float>(3, 0.f));
      CHECK(narrow.dgamma[0] == 0);
    }
  }
  const auto none = layer_norm_of<float>({}, 8, kEps);
  CHECK((none.dgamma == std::vector<float>(8, 0.f) && none.dbeta == std::vector<float>(8, 0.f)));
  CHECK(rms_norm_of<float>({}, 8, kEps).dgamma == std::vector<float>(8, 0.f));
  const auto rms = rms_norm_of<float>({1, 2, 3, 4}, 4, kEps, {0, 1, 1, 1}, {1, 1, 1, 1});
  check_near(rms.dgamma, {0.365148347, 0.730296695, 1.095445042, 1.460593389});
  check_near(rms.dx, {-0.109544490, 0.146059368, 0.036514879, -0.073029611});
  const auto ln = layer_norm_of<float>({1, 2, 3, 4}, 4, kEps, {0, 1, 1, 1}, {}, {1, 1, 1, 1});
  check_near(ln.dgamma, {-1.341635420, -0.447211807, 0.447211807, 1.341635420});

  Tape tape;
  TapeScope scope(&tape);
  const Variable gamma = tape.leaf(Tensor::full({4}, 1, DType::f32), true);
  const Variable beta = tape.leaf(Tensor::full({4}, 0, DType::f32), true);
  const Variable x = Tensor::from<float>({1, 2, 3, 4}, {1, 4});
  const Variable dy = Tensor::from<float>({1, 0, 2, -1}, {1, 4});
  tape.backward(cbwc::sum(mul(layer_norm(x, gamma, beta, kEps), dy)));
  check_near(tape.grad(gamma).to_vector<float>(), {-1.34163542, 0, 0.89442361, -1.34163542});
  CHECK(tape.grad(beta).to_vector<float>() == std::vector<float>{1, 0, 2, -1});
}

TEST_CASE("P12: a batch of no rows keeps its shape and gives zero gradients") {
  for (const bool centred : {true, false}) {
    Tape tape;
    TapeScope scope(&tape);
    const Variable x = tape.leaf(Tensor::zeros({0, 8}, DType::f32), true);
    const Variable gamma = tape.leaf(Tensor::full({8}, 2, DType::f32), true);
    const Variable beta = tape.leaf(Tensor::full({8}, 3, DType::f32), true);
    const Variable y = centred ? layer_norm(x, gamma, beta, kEps) : rms_norm(x, gamma, beta, kEps);
    CHECK(y.shape() == Shape{0, 8});
    tape.backward(cbwc::sum(y));
    CHECK(tape.grad(x).shape() == Shape{0, 8});
    for (const Variable& v : {gamma, beta})
      CHECK(tape.grad(v).to_vector<float>() == std::vector<float>(8, 0.f));
  }
}

TEST_CASE("P15: the gradient of a plain sum") {
  struct Gradient {
    std::vector<float> dx, dgamma;
  };
  const auto of = [](const std::function<Variable(const Variable&, const Variable&)>& norm) {
    Tape tape;
    TapeScope scope(&tape);
    const Variable x = tape.leaf(Tensor::from<float>({1, 2, 3, 4}, {1, 4}), true);
    const Variable gamma = tape.leaf(Tensor::full({4}, 1, DType::f32), true);
    tape.backward(cbwc::sum(norm(x, gamma)));
    return Gradient{tape.grad(x).to_vector<float>(), tape.grad(gamma).to_vector<float>()};
  };
  const Gradient ln = of([](auto& x, auto& gamma) { return layer_norm(x, gamma, {}, kEps); });
  check_near(ln.dx, {0, 0, 0, 0}, 1e-7);
  check_near(ln.dgamma, {-1.34163542, -0.44721181, 0.44721181, 1.34163542});
  const Gradient rms = of([](auto& x, auto& gamma) { return rms_norm(x, gamma, {}, 1e-6); });
  // Differences of terms of size 0.5 in float32: the third element is 0 but for eps.
  check_near(rms.dx, {0.243432248, 0.121716148, 0.0000000487, -0.121716051}, 1e-7);
  check_near(rms.dgamma, {0.365148347, 0.730296695, 1.095445042, 1.460593389});
}

TEST_CASE("P21: a second derivative is refused, whichever of gamma and beta are there") {
  for (const bool centred : {true, false})
    for (int given = 0; given < 4; ++given) {
      Tape tape;
      TapeScope scope(&tape);
      const Variable t = tape.leaf(Tensor::from<double>({0.7, 0}, {1, 2}), true);
      const Variable gamma = given & 1 ? Variable(Tensor::from<double>({1, 2}, {2})) : Variable();
      const Variable beta = given & 2 ? Variable(Tensor::from<double>({3, 4}, {2})) : Variable();
      const Variable y =
          centred ? layer_norm(t, gamma, beta, 0.25) : rms_norm(t, gamma, beta, 0.25);
      CHECK_THROWS_WITH(tape.backward(cbwc::sum(y), {.create_graph = true}),
                        ContainsSubstring("second derivatives"));
    }
}

TEST_CASE("P69: the result has x's type throughout; gamma and beta of another type are refused") {
  for (const DType type : {DType::f32, DType::f64})
    for (const bool centred : {true, false})
      for (int given = 0; given < 4; ++given) {
        Tape tape;
        TapeScope scope(&tape);
        const auto leaf = [&](const Shape& shape, const char* name) {
          return tape.leaf(sample(shape, 1, name, type), true);
        };
        const Variable x = leaf({3, 5}, "x");
        const Variable gamma = given & 1 ? leaf({5}, "gamma") : Variable();
        const Variable beta = given & 2 ? leaf({5}, "beta") : Variable();
        const Variable y =
            centred ? layer_norm(x, gamma, beta, kEps) : rms_norm(x, gamma, beta, kEps);
        tape.backward(cbwc::sum(mul(y, y)));
        CHECK(y.dtype() == type);
        for (const Variable* v : {&x, &gamma, &beta})
          if (v->defined()) CHECK(tape.grad(*v).dtype() == type);
      }
  const Tensor x = sample({3, 5}, 1, "x"), narrow = sample({5}, 1, "gamma", DType::f32);
  CHECK_THROWS_WITH(layer_norm(x, narrow, {}, kEps), ContainsSubstring("gamma is float32, x is"));
  CHECK_THROWS_WITH(rms_norm(x, {}, narrow, kEps), ContainsSubstring("beta is float32, x is"));
  // float64 from end to end: a difference that float32 cannot hold.
  const auto y = layer_norm_of<double>({1e9, 1e9 + 1}, 2, 1e-12).y;
  check_near(y, {-1, 1}, 1e-10);
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
  const auto back = layer_norm_of<float>(odd, 4, kEps, {}, {}, std::vector<float>(12, 1.f));
  for (int i = 0; i < 4; ++i) CHECK(std::isfinite(back.dx[i]));  // row 0 is not spoiled
  for (int i = 4; i < 12; ++i) CHECK(std::isnan(back.dx[i]));
  for (float v : back.dgamma) CHECK(std::isnan(v));
  CHECK(back.dbeta == std::vector<float>(4, 3.f));
  const auto rms = rms_norm_of<float>(odd, 4, kEps).y;
  for (int i = 4; i < 8; ++i) CHECK(std::isnan(rms[i]));
  CHECK((rms[8] == 0 && std::isnan(rms[9]) && rms[10] == 0 && rms[11] == 0));
}

TEST_CASE("a row's bits do not depend on the rows beside it") {
  // Seven rows are taken by four and one by one, by two and one, or alone, as the width says; the
  // widths end in a part of a vector, or not.
  const int64_t rows = 7;
  for (int64_t cols : {3, 64, 65, 513, 768, 1100, 1600, 5000}) {
    INFO("cols " << cols);
    auto x = sample({rows, cols}, 1, "x", DType::f32).to_vector<float>();
    auto dy = sample({rows, cols}, 1, "dy", DType::f32).to_vector<float>();
    const auto gamma = sample({cols}, 1, "gamma", DType::f32).to_vector<float>();
    for (bool overflow : {false, true}) {
      if (overflow) x[2 * cols] = 1e30f;  // redone in double; its neighbours are not
      const auto ln = layer_norm_of<float>(x, cols, kEps, gamma, gamma, dy);
      const auto rms = rms_norm_of<float>(x, cols, kEps, gamma, dy);
      for (int64_t r = 0; r < rows; ++r) {
        const auto row = [&](const std::vector<float>& v) {
          return std::vector<float>(v.begin() + r * cols, v.begin() + (r + 1) * cols);
        };
        const auto one_ln = layer_norm_of<float>(row(x), cols, kEps, gamma, gamma, row(dy));
        const auto one_rms = rms_norm_of<float>(row(x), cols, kEps, gamma, row(dy));
        CHECK((row(ln.y) == one_ln.y && row(ln.dx) == one_ln.dx));
        CHECK((row(rms.y) == one_rms.y && row(rms.dx) == one_rms.dx));
      }
    }
  }
}

TEST_CASE("P19: the same bits 20 times and for any thread count") {
  const int64_t rows = 4096, cols = 1600;
  const auto x = sample({rows, cols}, 1, "x", DType::f32).to_vector<float>();
  const auto dy = sample({rows, cols}, 1, "dy", DType::f32).to_vector<float>();
  const auto gamma = sample({cols}, 1, "gamma", DType::f32).to_vector<float>();
  const auto first_ln = layer_norm_of<float>(x, cols, kEps, gamma, gamma, dy);
  const auto first_rms = rms_norm_of<float>(x, cols, kEps, gamma, dy);
  const auto same = [](const Norm<float>& a, const Norm<float>& b) {
    return a.y == b.y && a.dx == b.dx && a.dgamma == b.dgamma && a.dbeta == b.dbeta;
  };
  const int before = threads();
  for (int i = 0; i < 20; ++i) {
    set_threads(1 + i % 4);
    CHECK(same(layer_norm_of<float>(x, cols, kEps, gamma, gamma, dy), first_ln));
    CHECK(same(rms_norm_of<float>(x, cols, kEps, gamma, dy), first_rms));
  }
  set_threads(before);
  CHECK_FALSE(same(layer_norm_of<float>(x, cols, 2 * kEps, gamma, gamma, dy), first_ln));
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> zeros(4, 0.f), minus(4, -1.f);
    CHECK(rms_norm_of<float>(zeros, 4, 1e-6, {}, minus).dgamma == zeros);
  }
}
