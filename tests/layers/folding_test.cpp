// The fold applied by hand-made plans: the cases' numbers, every kind of producer, ties, the
// affine step, and that a bad plan changes nothing. Detected plans are tested with the zoo.
#include "layers/folding.h"

#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "core/allocator.h"
#include "layers/compare.h"
#include "layers/embedding.h"
#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "layers/tied_linear.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"
#include "tests/support/small_modules.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kCase = 1e-8;     // the cases print nine digits
constexpr double kExact = 1e-12;   // a few roundings of float64, relative to the largest output
constexpr double kFloat = 1e-4;    // the same in float32, through one norm
constexpr double kVisible = 1e-3;  // what a mistake changes
constexpr double kEps = 1e-5;
const Init kInit{1, DType::f64, 0.5};

Tensor row(const std::vector<double>& values) {
  return Tensor::from(values, {1, static_cast<int64_t>(values.size())});
}

CentredParameter centre(const std::string& parameter, const Shape& shape, int axis) {
  return {parameter, "", whole_axis(shape, axis)};
}

DetectedNorm detected(const std::string& name, Verdict verdict) {
  DetectedNorm norm;
  norm.name = name;
  norm.verdict = verdict;
  return norm;
}

struct LinearNorm : Root {
  LinearNorm(int64_t in, int64_t out, DType dtype = DType::f64, double eps = kEps)
      : fc(this, "fc", in, out, true, {1, dtype, 0.5}), norm(this, "norm", out, eps, true, dtype) {}
  Variable forward(const Variable& x) { return norm.forward(fc.forward(x), {}); }
  FoldPlan plan() const {
    FoldPlan p;
    p.norms = {"norm"};
    p.centre = {centre("fc.weight", fc.weight()->value().shape(), 0),
                centre("fc.bias", fc.bias()->value().shape(), 0)};
    return p;
  }
  Linear fc;
  LayerNorm norm;
};

}  // namespace

TEST_CASE("P22: a Linear and its LayerNorm fold to the case's numbers") {
  LinearNorm model(2, 3);
  set(model.fc.weight(), {1, 2, 3, 4, 5, 9});
  set(model.fc.bias(), {1, 0, 2});
  const Tensor x = row({1, 1});
  const std::vector<double> right = {-0.980580487, -0.392232195, 1.372812682};
  check_values(model.forward(x).value(), right, kCase);
  apply_fold(model, model.plan());
  CHECK(model.norm.is_rms_norm());
  check_values(model.fc.weight()->value(), {-2, -3, 0, -1, 2, 4}, 0);
  check_values(model.fc.bias()->value(), {0, -1, 1}, 0);
  check_values(model.forward(x).value(), right, kCase);
}

TEST_CASE("P22: centring the input axis, or nothing, is seen") {
  for (const bool wrong_axis : {true, false}) {
    LinearNorm model(2, 3);
    set(model.fc.weight(), {1, 2, 3, 4, 5, 9});
    set(model.fc.bias(), {1, 0, 2});
    FoldPlan plan = model.plan();
    plan.centre[0].lane = whole_axis({3, 2}, 1);
    if (!wrong_axis) plan.centre.clear();
    apply_fold(model, plan);
    const Tensor y = model.forward(row({1, 1})).value();
    if (wrong_axis)
      check_values(y, {0, -1.224736, 1.224736}, 1e-6);
    else
      check_values(y, {0.386695, 0.676716, 1.546778}, 1e-6);
  }
}

TEST_CASE("P23: token and position tables are both centred, row by row") {
  struct Sum : Root {
    Embedding tokens{this, "tokens", 2, 3, Role::embedding, kInit};
    Embedding places{this, "places", 1, 3, Role::position, kInit};
    LayerNorm norm{this, "norm", 3, kEps, true, DType::f64};
    Tensor forward() {
      const Tensor zero = Tensor::from<int32_t>({0}, {1});
      return norm.forward(add(tokens.forward(zero), places.forward(zero)), {}).value();
    }
  };
  const std::vector<double> right = {-1.388728662, 0.462909554, 0.925819108};
  for (const bool both : {true, false}) {
    Sum model;
    set(model.tokens.weight(), {1, 2, 6, 9, 9, 7});
    set(model.places.weight(), {0, 3, 0});
    check_values(model.forward(), right, kCase);
    FoldPlan plan;
    plan.norms = {"norm"};
    plan.centre = {centre("tokens.weight", {2, 3}, 1)};
    if (both) plan.centre.push_back(centre("places.weight", {1, 3}, 1));
    apply_fold(model, plan);
    if (both)
      check_values(model.forward(), right, kCase);
    else
      check_values(model.forward(), {-0.840167, 0.840167, 1.260251}, 1e-6);
  }
}

TEST_CASE("P25: the norm keeps its own eps") {
  LinearNorm model(1, 2, DType::f64, 1e-12);
  set(model.fc.weight(), {1, -1});
  set(model.fc.bias(), {0, 0});
  apply_fold(model, model.plan());
  check_values(model.forward(row({1e-3})).value(), {0.9999995, -0.9999995}, 1e-9);
}

TEST_CASE("P32: a weight stored (in, out) is centred over its last axis") {
  struct Conv1d : Root {
    ParameterPtr w = add_constant_parameter("w", {2, 3}, Role::weight, 0.0, DType::f64);
    ParameterPtr b = add_constant_parameter("b", {3}, Role::bias, 0.0, DType::f64);
    LayerNorm norm{this, "norm", 3, kEps, true, DType::f64};
    Tensor forward(const Tensor& x) {
      return norm.forward(add(matmul(x, use(w)), use(b)), {}).value();
    }
  } model;
  set(model.w, {1, 3, 5, 2, 4, 9});
  set(model.b, {1, 0, 2});
  FoldPlan plan;
  plan.norms = {"norm"};
  plan.centre = {centre("w", {2, 3}, 1), centre("b", {3}, 0)};
  apply_fold(model, plan);
  check_values(model.w->value(), {-2, 0, 2, -3, -1, 4}, 0);
  check_values(model.forward(row({1, 1})), {-0.980580487, -0.392232195, 1.372812682}, kCase);
}

TEST_CASE("a fold is exact with random gains and biases, in both element types") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    LinearNorm model(7, 12, dtype);
    draw_all(model, 3);
    const Tensor x = sample({9, 7}, 1, "x", dtype);
    const Tensor before = model.forward(x).value();
    const Tensor gamma = model.norm.gamma()->value().clone();
    apply_fold(model, model.plan());
    const double error = relative_difference(before, model.forward(x).value());
    CHECK(error <= (dtype == DType::f64 ? kExact : kFloat));
    CHECK(same_bits(gamma, model.norm.gamma()->value()));
  }
}

TEST_CASE("float32 weights are centred in float64 and rounded once") {
  LinearNorm model(2, 257, DType::f32);
  draw_all(model, 5);
  const std::vector<float> before = model.fc.weight()->value().to_vector<float>();
  apply_fold(model, model.plan());
  const std::vector<float> after = model.fc.weight()->value().to_vector<float>();
  for (size_t column = 0; column < 2; ++column) {
    double sum = 0;
    for (size_t r = 0; r < 257; ++r) sum += static_cast<double>(before[2 * r + column]);
    for (size_t r = 0; r < 257; ++r) {
      const size_t i = 2 * r + column;
      REQUIRE(after[i] == static_cast<float>(static_cast<double>(before[i]) - sum / 257));
    }
  }
}

TEST_CASE("the transform needs no more than one extra copy of the largest parameter") {
  LinearNorm model(300, 500, DType::f32);
  draw_all(model, 29);
  const size_t largest = model.fc.weight()->value().bytes();
  reset_peak(Device::cpu);
  const size_t before = memory_stats(Device::cpu).live;
  apply_fold(model, model.plan());
  CHECK(memory_stats(Device::cpu).peak - before <= largest);
}

TEST_CASE("lanes in blocks: a norm over each head, the rest of the parameter untouched") {
  struct Heads : Root {
    Linear qkv{this, "qkv", 5, 18, true, kInit};  // q, k, v of 6: two heads of 3
    LayerNorm norm{this, "norm", 3, kEps, true, DType::f64};
    Tensor forward(const Tensor& x) {
      const Variable y = qkv.forward(x);
      const Variable q = norm.forward(reshape(slice(y, -1, 0, 6), {4, 2, 3}), {});
      const Variable k = norm.forward(reshape(slice(y, -1, 6, 12), {4, 2, 3}), {});
      return concat({reshape(q, {4, 6}), reshape(k, {4, 6}), slice(y, -1, 12, 18)}, -1).value();
    }
  } model;
  draw_all(model, 7);
  const Tensor x = sample({4, 5}, 2, "x"), before = model.forward(x);
  const Tensor values = model.qkv.weight()->value().slice(0, 12, 18).clone();
  FoldPlan plan;
  plan.norms = {"norm"};
  plan.centre = {{"qkv.weight", "qkv", {0, 0, 12, 3}}, {"qkv.bias", "qkv", {0, 0, 12, 3}}};
  apply_fold(model, plan);
  CHECK(relative_difference(before, model.forward(x)) <= kExact);
  CHECK(same_bits(values, model.qkv.weight()->value().slice(0, 12, 18)));
}

TEST_CASE("Linears concatenated along the axis are centred together") {
  struct Parts : Root {
    Linear a{this, "a", 4, 3, true, kInit}, b{this, "b", 4, 5, true, kInit};
    LayerNorm norm{this, "norm", 8, kEps, true, DType::f64};
    Tensor forward(const Tensor& x) {
      return norm.forward(concat({a.forward(x), b.forward(x)}, -1), {}).value();
    }
  };
  for (const bool together : {true, false}) {
    Parts model;
    draw_all(model, 11);
    const Tensor x = sample({6, 4}, 3, "x"), before = model.forward(x);
    FoldPlan plan;
    plan.norms = {"norm"};
    plan.centre = {centre("a.weight", {3, 4}, 0), centre("b.weight", {5, 4}, 0),
                   centre("a.bias", {3}, 0), centre("b.bias", {5}, 0)};
    for (size_t i = 0; together && i < 4; ++i) plan.centre[i].together = i < 2 ? 1 : 2;
    apply_fold(model, plan);
    const double error = relative_difference(before, model.forward(x));
    CHECK((together ? error <= kExact : error >= kVisible));
  }
}

TEST_CASE("a LayerScale is multiplied into weight and bias before they are centred") {
  struct Scaled : Root {
    Linear fc{this, "fc", 4, 6, true, kInit};
    ParameterPtr gain = add_constant_parameter("gain", {6}, Role::norm_gain, 1.0, DType::f64);
    LayerNorm norm{this, "norm", 6, kEps, true, DType::f64};
    Tensor forward(const Tensor& x) {
      return norm.forward(mul(fc.forward(x), use(gain)), {}).value();
    }
  };
  for (const bool scaled : {true, false}) {
    Scaled model;
    draw_all(model, 13);
    const Tensor x = sample({6, 4}, 4, "x"), before = model.forward(x);
    FoldPlan plan;
    plan.norms = {"norm"};
    plan.centre = {centre("fc.weight", {6, 4}, 0), centre("fc.bias", {6}, 0)};
    for (CentredParameter& c : plan.centre) c.scale = scaled ? "gain" : "";
    apply_fold(model, plan);
    const double error = relative_difference(before, model.forward(x));
    CHECK((scaled ? error <= kExact : error >= kVisible));
    if (scaled) check_values(model.gain->value(), {1, 1, 1, 1, 1, 1}, 0);
    if (scaled)
      CHECK(plan.changed_parameters() == std::vector<std::string>{"fc.bias", "fc.weight", "gain"});
  }
}

TEST_CASE("a tied head stays right by rank one, untied and with a run-time centring") {
  struct Tied : Root {
    Embedding tokens{this, "tokens", 9, 5, Role::embedding, kInit};
    LayerNorm norm{this, "norm", 5, kEps, true, DType::f64};
    TiedLinear head{this, "head", tokens.weight()};
    Tensor forward() {
      const Tensor ids = Tensor::from<int32_t>({0, 3, 8, 4}, {4});
      return head.forward(norm.forward(tokens.forward(ids), {})).value();
    }
  };
  Detection found;
  found.norms = {detected("norm", Verdict::foldable)};
  found.centre = {{"tokens.weight", "tokens", whole_axis({9, 5}, 1)}};
  found.ties = {{"tokens.weight", "head"}};
  for (const HeadTie tied : {HeadTie::rank_one, HeadTie::untie, HeadTie::runtime}) {
    Tied model;
    draw_all(model, 17);
    const Tensor before = model.forward(), table = model.tokens.weight()->value().clone();
    const FoldPlan plan = plan_fold(found, {tied, false});
    apply_fold(model, plan);
    CHECK(relative_difference(before, model.forward()) <= kExact);
    const bool kept = same_bits(table, model.tokens.weight()->value());
    CHECK(kept == (tied == HeadTie::runtime));
    CHECK((model.head.row_means() != nullptr) == (tied == HeadTie::rank_one));
    if (tied == HeadTie::untie) CHECK(same_bits(table, model.head.weight()->value()));
    if (tied == HeadTie::runtime) CHECK(plan.auxiliary == std::vector<std::string>{"tokens"});
  }
  Tied ignored;
  draw_all(ignored, 17);
  const Tensor before = ignored.forward();
  found.ties.clear();
  apply_fold(ignored, plan_fold(found, {}));
  CHECK(relative_difference(before, ignored.forward()) >= kVisible);
}

TEST_CASE("plan_fold takes auxiliary centrings only when asked") {
  Detection found;
  found.norms = {detected("a", Verdict::foldable), detected("b", Verdict::foldable_with_auxiliary),
                 detected("c", Verdict::not_foldable)};
  found.centre = {centre("x", {2, 3}, 0)};
  found.centre_auxiliary = {centre("y", {2, 3}, 0)};
  found.auxiliary = {{"first", -1, {}, 1}};
  found.ties = {{found.centre_auxiliary[0].parameter, "head"}};  // settled only with its table
  const FoldPlan plain = plan_fold(found, {});
  CHECK(plain.norms == std::vector<std::string>{"a"});
  CHECK(plain.centre.size() == 1);
  CHECK(plain.auxiliary.empty());
  CHECK(plain.ties.empty());
  const FoldPlan more = plan_fold(found, {HeadTie::rank_one, true});
  CHECK(more.norms == std::vector<std::string>{"a", "b"});
  CHECK(more.centre.size() == 2);
  CHECK(more.ties.size() == 1);
  CHECK(more.auxiliary == std::vector<std::string>{"first"});
  CHECK(plan_fold(Detection(), {}).empty());
}

TEST_CASE("a plan that does not fit is refused by name and changes nothing") {
  const auto refused = [](const std::string& message, const auto& spoil) {
    LinearNorm model(3, 4);
    draw_all(model, 19);
    FoldPlan plan = model.plan();
    spoil(model, plan);
    NamedTensors before;
    for (const auto& [name, value] : model.state()) before[name] = value.clone();
    CHECK_THROWS_WITH(apply_fold(model, plan), ContainsSubstring(message));
    CHECK_FALSE(model.norm.is_rms_norm());
    for (const auto& [name, value] : model.state()) CHECK(same_bits(before.at(name), value));
  };
  refused("no module 'other'", [](auto&, FoldPlan& p) { p.norms.push_back("other"); });
  refused("'fc' is not a LayerNorm", [](auto&, FoldPlan& p) { p.norms.push_back("fc"); });
  refused("no parameter 'fc.gain'",
          [](auto&, FoldPlan& p) { p.centre.push_back(centre("fc.gain", {4}, 0)); });
  refused("cannot be centred along", [](auto&, FoldPlan& p) {
    p.centre[0].lane = whole_axis({5, 3}, 0);
  });
  refused("cannot be centred at run time", [](auto&, FoldPlan& p) { p.auxiliary = {"fc"}; });
  refused("is not a tied head", [](auto&, FoldPlan& p) { p.ties = {{"fc.weight", "fc"}}; });
  refused("does not fit", [](auto&, FoldPlan& p) { p.centre[0].scale = "fc.weight"; });
  refused("cannot be centred together",
          [](auto&, FoldPlan& p) { p.centre[0].together = p.centre[1].together = 1; });
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    refused("'fc.bias' holds a number that is not finite", [&](LinearNorm& m, FoldPlan&) {
      set(m.fc.bias(), {1, bad, 2, 3});
    });
  }
}

TEST_CASE("a folded norm is not folded again") {
  LinearNorm model(3, 4);
  draw_all(model, 23);
  apply_fold(model, model.plan());
  CHECK_THROWS_WITH(apply_fold(model, model.plan()), ContainsSubstring("is not a LayerNorm"));
}
