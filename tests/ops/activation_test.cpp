#include "autograd/ops/activation.h"

#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/kernels/cpu/vector_math.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

namespace cbwc::testing {
namespace {

// Table values of cases.md P50 have nine digits.
constexpr double kDigits = 1e-9;

double derivative(const TensorFunction& f, double x) {
  Tape tape;
  TapeScope scope(&tape);
  const Variable leaf = tape.leaf(Tensor::from<double>({x}, {1}), true);
  tape.backward(sum(f({leaf})));
  return tape.grad(leaf).item();
}

double value(const Variable& y) { return y.value().to(DType::f64).item(); }

TEST_CASE("activation op cases") {
  struct Named {
    const char* name;
    TensorFunction run;
    double (*formula)(double);
  };
  const Named all[] = {
      {"gelu erf", [](const auto& in) { return gelu(in[0], Gelu::erf); },
       [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }},
      {"gelu tanh", [](const auto& in) { return gelu(in[0], Gelu::tanh); },
       [](double x) {
         return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       }},
      {"relu", [](const auto& in) { return relu(in[0]); },
       [](double x) { return std::max(x, 0.0); }},
      {"silu", [](const auto& in) { return silu(in[0]); },
       [](double x) { return x / (1 + std::exp(-x)); }},
      {"tanh", [](const auto& in) { return tanh(in[0]); }, [](double x) { return std::tanh(x); }},
      {"sigmoid", [](const auto& in) { return sigmoid(in[0]); },
       [](double x) { return 1 / (1 + std::exp(-x)); }},
  };
  for (const Named& a : all) {
    INFO(a.name);
    for (Shape shape : {Shape{7}, Shape{3, 33}, Shape{5, 4099}}) {
      OpCase c;
      c.name = a.name;
      c.shapes = {shape};
      c.run = a.run;
      c.cuda = false;
      // Among many samples one is so near 0 that a difference straddles the kink of relu.
      if (a.name != std::string("relu") || numel(shape) < 1000) run_op_case(c);
      for (DType dtype : {DType::f64, DType::f32}) {
        const Tensor x = sample(shape, 2, a.name, dtype);
        std::vector<double> want = x.to(DType::f64).to_vector<double>();
        for (double& w : want) w = a.formula(w);
        const double tolerance = dtype == DType::f64 ? 1e-15 : 5e-7;
        CHECK(difference(a.run({x}).value(), Tensor::from(want, shape)) < tolerance);
      }
    }
  }
}

TEST_CASE("both GELU forms (cases.md P50)") {
  const auto erf_form = [](double x) {
    return value(gelu(Tensor::from<double>({x}, {1}), Gelu::erf));
  };
  const auto tanh_form = [](double x) {
    return value(gelu(Tensor::from<double>({x}, {1}), Gelu::tanh));
  };
  CHECK(erf_form(-2.7) == Approx(-0.00936082927).epsilon(kDigits));
  CHECK(erf_form(-1) == Approx(-0.158655254).epsilon(2 * kDigits));
  CHECK(erf_form(2.5) == Approx(2.484475837).epsilon(kDigits));
  CHECK(tanh_form(-2.7) == Approx(-0.00888759464).epsilon(kDigits));
  CHECK(tanh_form(-1) == Approx(-0.158808009).epsilon(3 * kDigits));
  CHECK(tanh_form(2.5) == Approx(2.484915734).epsilon(kDigits));
  CHECK(erf_form(-8) == Approx(-4.97677e-15).epsilon(1e-5));
  CHECK(derivative([](const auto& in) { return gelu(in[0], Gelu::erf); }, -1) ==
        Approx(-0.0833154706).epsilon(kDigits));
  CHECK(derivative([](const auto& in) { return gelu(in[0], Gelu::tanh); }, -1) ==
        Approx(-0.0829640838).epsilon(kDigits));
  // Float32 keeps its digits in the tail as well.
  CHECK(value(gelu(Tensor::from<float>({-8.0f}, {1}), Gelu::erf)) ==
        Approx(-4.97677e-15).epsilon(1e-5));
}

TEST_CASE("P50: the two GELU forms are nowhere further apart than 4.73e-4, at 2.70") {
  std::vector<double> x;
  for (int i = -600; i <= 600; ++i) x.push_back(i * 0.01);
  const int64_t n = static_cast<int64_t>(x.size());
  const auto erf_form = gelu(Tensor::from(x, {n}), Gelu::erf).value().to_vector<double>();
  const auto tanh_form = gelu(Tensor::from(x, {n}), Gelu::tanh).value().to_vector<double>();
  double gap = 0, at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double here = std::abs(erf_form[i] - tanh_form[i]);
    if (here > gap) gap = here, at = std::abs(x[i]);
  }
  CHECK(gap == Approx(4.73e-4).epsilon(2e-3));  // three digits are published
  CHECK(at == Approx(2.70).epsilon(1e-9));
}

TEST_CASE("activations at the edges") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from<float>({0.0f, -100.0f, 100.0f, inf, nan}, {5});
  for (const Variable& y : {gelu(x, Gelu::erf), gelu(x, Gelu::tanh), relu(x), silu(x)}) {
    const std::vector<float> v = y.value().to_vector<float>();
    CHECK(v[0] == 0.0f);
    CHECK(std::abs(v[1]) < 1e-30f);
    CHECK(v[2] == 100.0f);
    CHECK(v[3] == inf);
    CHECK(std::isnan(v[4]));
  }
  CHECK(derivative([](const auto& in) { return relu(in[0]); }, 0.0) == 0.0);
  const std::vector<float> t = tanh(x).value().to_vector<float>();
  const std::vector<float> s = sigmoid(x).value().to_vector<float>();
  const std::vector<float> want_t = {0, -1, 1, 1, nan}, want_s = {0.5f, 0, 1, 1, nan};
  CHECK(std::equal(t.begin(), t.end() - 1, want_t.begin()));
  CHECK(std::equal(s.begin(), s.end() - 1, want_s.begin()));
  CHECK((std::isnan(t[4]) && std::isnan(s[4])));
}

// Worst relative error of f against g over [low, high], in units of 2^-24 (half a unit in the last
// place).
template <class F, class G>
double worst_error(const F& f, const G& g, double low, double high) {
  double worst = 0;
  for (int i = 0; i <= 400000; ++i) {
    const float x = static_cast<float>(low + (high - low) * i / 400000);
    const double want = g(static_cast<double>(x));
    if (std::abs(want) < 1e-36) continue;
    worst = std::max(worst, std::abs(static_cast<double>(f(x)) - want) / std::abs(want) * 0x1p24);
  }
  return worst;
}

TEST_CASE("the float32 functions are within a few units in the last place") {
  using cpu::verf;
  using cpu::vexp;
  using cpu::vnormal_cdf;
  using cpu::vtanh;
  const auto exp_error =
      worst_error([](float x) { return vexp(x); }, [](double x) { return std::exp(x); }, -82, 88.7);
  const auto tanh_error =
      worst_error([](float x) { return vtanh(x); }, [](double x) { return std::tanh(x); }, -10, 10);
  const auto erf_error =
      worst_error([](float x) { return verf(x); }, [](double x) { return std::erf(x); }, -5, 5);
  // The lower tail is the exponential of a number of size x^2 / 2, rounded.
  const auto cdf_error =
      worst_error([](float x) { return vnormal_cdf(x); },
                  [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }, -5, 6);
  CHECK(exp_error < 4);
  CHECK(tanh_error < 4);
  CHECK(erf_error < 6);
  CHECK(cdf_error < 30);
  INFO(exp_error << " " << tanh_error << " " << erf_error << " " << cdf_error);
  CHECK(exp_error > 0.5);  // the measure itself works
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(vexp(-inf) == 0.0f);
  CHECK(vexp(-100.0f) == 0.0f);
  CHECK(vexp(0.0f) == 1.0f);
  CHECK(vexp(89.0f) == inf);
  CHECK(std::isnan(vexp(std::numeric_limits<float>::quiet_NaN())));
  CHECK(verf(inf) == 1.0f);
  CHECK(vtanh(-inf) == -1.0f);
}

}  // namespace
}  // namespace cbwc::testing
