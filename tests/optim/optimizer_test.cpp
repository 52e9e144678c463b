#include <cmath>
#include <limits>

#include "core/kernels/adamw.h"
#include "core/parallel.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

ParameterPtr make(const std::string& name, Shape shape, Role role, double value = 1.0,
                  DType dtype = DType::f64) {
  return std::make_shared<Parameter>(name, Tensor::full(std::move(shape), value, dtype), role);
}

void set_grad(Parameter& p, const std::vector<double>& values) {
  p.grad_buffer().copy_from(Tensor::from(values, p.value().shape()));
  p.mark_grad();
}

std::vector<double> values_of(const ParameterPtr& p) {
  return p->value().to(DType::f64).to_vector<double>();
}

}  // namespace

TEST_CASE("P56: eps is added after the bias correction") {
  for (DType dtype : {DType::f64, DType::f32}) {
    FlatParameters flat({make("w", {1}, Role::weight, 0.0, dtype)});
    AdamW adamw(flat, {});
    set_grad(*flat.parameters()[0], {1e-7});
    adamw.step(1e-3);
    const double tolerance = dtype == DType::f64 ? 1e-11 : 1e-9;
    CHECK(std::abs(-values_of(flat.parameters()[0])[0] - 9.0909091e-4) < tolerance);
  }
}

TEST_CASE("AdamW follows its formula for many steps, whatever the threads") {
  const int64_t n = 50000;
  const AdamWOptions options{.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.05};
  std::vector<std::vector<double>> runs;
  std::vector<double> p(n, 1.0), m(n, 0.0), v(n, 0.0);
  const int before = threads();
  for (int count : {1, 2}) {
    set_threads(count);
    FlatParameters flat({make("w", {n}, Role::weight)});
    AdamW adamw(flat, options);
    for (int step = 1; step <= 5; ++step) {
      const auto g = sample({n}, step, "g").to_vector<double>();
      set_grad(*flat.parameters()[0], g);
      adamw.step(0.01, 0.5);
      for (int64_t i = 0; i < n && count == 1; ++i) {
        m[i] = 0.8 * m[i] + 0.2 * (0.5 * g[i]);
        v[i] = 0.95 * v[i] + 0.05 * std::pow(0.5 * g[i], 2);
        const double mh = m[i] / (1 - std::pow(0.8, step)), vh = v[i] / (1 - std::pow(0.95, step));
        p[i] = p[i] * (1 - 0.01 * 0.05) - 0.01 * mh / (std::sqrt(vh) + 1e-6);
      }
    }
    CHECK(adamw.steps() == 5);
    runs.push_back(values_of(flat.parameters()[0]));
  }
  set_threads(before);
  CHECK(runs[0] == runs[1]);
  double worst = 0;
  for (int64_t i = 0; i < n; ++i) worst = std::max(worst, std::abs(p[i] - runs[0][i]));
  CHECK(worst < 1e-13);
}

TEST_CASE("SGD with and without momentum") {
  for (const bool nesterov : {false, true}) {
    FlatParameters flat({make("w", {1}, Role::weight), make("b", {1}, Role::bias)});
    Sgd sgd(flat, {.momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.1});
    double p = 1, b = 0, q = 1, c = 0;
    for (int step = 0; step < 4; ++step) {
      set_grad(*flat.parameters()[0], {0.5 + step});
      set_grad(*flat.parameters()[1], {2.0 - step});
      sgd.step(0.1, 2.0);
      const double g = 2 * (0.5 + step) + 0.1 * p, h = 2 * (2.0 - step);
      b = 0.9 * b + g;
      c = 0.9 * c + h;
      p -= 0.1 * (nesterov ? g + 0.9 * b : b);
      q -= 0.1 * (nesterov ? h + 0.9 * c : c);
    }
    CHECK(values_of(flat.parameters()[0])[0] == Approx(p).epsilon(1e-14));
    CHECK(values_of(flat.parameters()[1])[0] == Approx(q).epsilon(1e-14));
  }
  FlatParameters flat({make("w", {2}, Role::weight)});
  Sgd sgd(flat, {});
  set_grad(*flat.parameters()[0], {1, -1});
  sgd.step(0.25);
  CHECK(values_of(flat.parameters()[0]) == std::vector<double>{0.75, 1.25});
  CHECK_THROWS_AS(Sgd(flat, {.nesterov = true}), Error);
  CHECK_THROWS_AS(AdamW(flat, {.beta1 = 1.0}), Error);
  CHECK_THROWS_AS(AdamW(flat, {.eps = 0.0}), Error);
}

TEST_CASE("P57: clipping by the global norm") {
  FlatParameters flat({make("a", {1}, Role::weight), make("b", {1}, Role::bias)});
  const auto clip = [&](double a, double b, double unit, double max_norm) {
    set_grad(*flat.parameters()[0], {a});
    set_grad(*flat.parameters()[1], {b});
    return gradient_norm(flat, unit, max_norm);
  };
  ClipResult r = clip(3, 4, 1, 1);
  CHECK(r.norm == Approx(5));
  CHECK(std::abs(3 * r.scale - 0.6) < 1e-6);
  CHECK(std::abs(4 * r.scale - 0.8) < 1e-6);
  CHECK(clip(0, 0, 1, 1).scale == 1);
  CHECK(clip(3, 4, 1, 6).scale == 1);
  CHECK(clip(3, 4, 1, 0).scale == 1);
  // Two micro-gradients are summed, un-scaled by the window, then clipped once.
  r = clip(6 + 0, 0 + 8, 0.5, 5);
  CHECK(6 * r.scale == Approx(3));
  CHECK(8 * r.scale == Approx(4));
  const double infinity = std::numeric_limits<double>::infinity();
  for (double bad : {infinity, -infinity, std::nan("")}) {
    r = clip(bad, 1, 1, 1);
    CHECK_FALSE(r.finite);
    CHECK(r.scale == 0);
  }
}

TEST_CASE("P44, P45: gradients are sums, and the step divides by the window's count") {
  CHECK((1 * 4.0 + 3 * 1.0) * window_scale(1 + 3) == 1.75);
  CHECK((1 + 2 + 3 + 4) * window_scale(4) == 2.5);
  CHECK((5 + 6 + 7) * window_scale(3) == Approx(6.0));
  CHECK(window_scale(0) == 0);
}

TEST_CASE("the sum of squares has the same bits for any thread count") {
  const Tensor x = sample({100003}, 1, "x", DType::f32);
  const int before = threads();
  set_threads(1);
  const double one = cpu::sum_of_squares(x.data<float>(), x.numel());
  set_threads(2);
  const double two = cpu::sum_of_squares(x.data<float>(), x.numel());
  set_threads(before);
  double want = 0;
  for (float value : x.to_vector<float>()) want += static_cast<double>(value) * value;
  CHECK(one == two);
  CHECK(one == Approx(want).epsilon(1e-12));
}

TEST_CASE("P59: optimiser state is matched by name") {
  const auto p1 = [] { return make("p1", {2, 3}, Role::weight); };
  const auto p2 = [] { return make("p2", {3, 4}, Role::weight); };
  FlatParameters saved({p1(), p2()});
  AdamW from(saved, {});
  for (int step = 0; step < 2; ++step) {
    for (const ParameterPtr& p : saved.parameters()) {
      set_grad(*p, sample(p->value().shape(), step, p->name()).to_vector<double>());
    }
    from.step(0.1);
  }
  FlatParameters loaded({p2(), p1()});
  AdamW to(loaded, {});
  to.load(from.steps(), from.m_by_name(), from.v_by_name());
  CHECK(to.steps() == 2);
  for (const char* name : {"p1", "p2"}) {
    CHECK(same_bits(to.m_by_name().at(name), from.m_by_name().at(name)));
    CHECK(same_bits(to.v_by_name().at(name), from.v_by_name().at(name)));
  }
  CHECK_FALSE(same_bits(to.m(), from.m()));

  NamedTensors m = from.m_by_name(), v = from.v_by_name();
  v.erase("p2");
  CHECK_THROWS_AS(to.load(9, m, v), Error);
  m["p3"] = m["p1"];
  CHECK_THROWS_AS(to.load(9, m, from.v_by_name()), Error);
  m = from.m_by_name();
  m["p1"] = Tensor::zeros({3, 2}, DType::f64);
  CHECK_THROWS_AS(to.load(9, m, from.v_by_name()), Error);
  m["p1"] = Tensor::zeros({2, 3}, DType::f32);
  CHECK_THROWS_AS(to.load(9, m, from.v_by_name()), Error);
  CHECK(to.steps() == 2);
  CHECK(same_bits(to.m_by_name().at("p1"), from.m_by_name().at("p1")));

  FlatParameters twice({make("p", {1}, Role::weight), make("p", {1}, Role::weight)});
  AdamW ambiguous(twice, {});
  CHECK_THROWS_AS(ambiguous.m_by_name(), Error);
}

TEST_CASE("P68: decay goes by role") {
  const std::vector<ParameterPtr> all{
      make("linear.w", {3, 5}, Role::weight), make("cbwc.w", {4, 4}, Role::weight),
      make("cbwc.b", {4}, Role::bias),        make("ln.gain", {4}, Role::norm_gain),
      make("ln.bias", {4}, Role::norm_bias),  make("wte", {7, 4}, Role::embedding),
      make("wpe", {5, 4}, Role::position),    make("frozen.w", {2, 2}, Role::weight),
      make("relative", {9}, Role::position)};
  all[7]->set_trainable(false);
  FlatParameters flat(all);
  AdamW adamw(flat, {.weight_decay = 0.1});
  for (const ParameterPtr& p : all) {
    set_grad(*p, std::vector<double>(static_cast<size_t>(p->value().numel()), 0.0));
  }
  adamw.step(0.1);
  for (const ParameterPtr& p : all) {
    INFO(p->name());
    const bool decay = p->trainable() && decays(p->role());
    for (double value : values_of(p))
      CHECK((decay ? std::abs(value - 0.99) < 1e-15 : value == 1.0));
    CHECK_FALSE(p->has_grad());
  }
  const auto groups = decay_groups(flat);
  CHECK(groups[0].parameters ==
        std::vector<std::string>{"linear.w", "cbwc.w", "wte", "wpe", "relative"});
  CHECK(groups[1].parameters == std::vector<std::string>{"cbwc.b", "ln.gain", "ln.bias"});
  CHECK(groups[2].parameters == std::vector<std::string>{"frozen.w"});
  CHECK(groups[0].elements == 15 + 16 + 28 + 20 + 9);
  CHECK(update_ranges(flat).size() == 4);
  CHECK(decay_report(flat).find("norm_gain") != std::string::npos);
}
