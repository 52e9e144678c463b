// cases.md 6.2: folds small enough for numbers by hand.
#include "autograd/ops/activation.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/softmax.h"
#include "layers/embedding.h"
#include "layers/layer_norm.h"
#include "layers/rms_norm.h"
#include "tests/support/catch.h"
#include "tests/support/zoo_fold.h"

namespace cbwc::testing {
namespace {

constexpr double kDigits = 1e-8;     // the cases give nine digits
constexpr double kSixDigits = 1e-6;  // of the wrong answers only six

using Values = std::vector<double>;

void set(const Module& model, const std::string& name, const Values& values) {
  const ParameterPtr p = model.parameter(name);
  p->mutate().copy_from(Tensor::from(values, p->value().shape()));
}

Values values(const Module& model, const std::string& name) {
  return model.parameter(name)->value().to_vector<double>();
}

Values output(ZooModel& model) { return outputs_of(model, false).at(0).to_vector<double>(); }

void check_close(const Values& got, const Values& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(tolerance));
}

Variable row(const Values& x) { return Tensor::from(x, {1, static_cast<int64_t>(x.size())}); }

Variable norm(ZooNet& n, const std::string& name, const Variable& x) {
  return n.layer<LayerNorm>(name, x.size(-1), 1e-5, true, DType::f64).forward(x, n.context());
}

FoldPlan plan_of(ZooModel& model) { return plan_fold(detect_in(model, false), {}); }

const Values kWeight = {1, 2, 3, 4, 5, 9}, kBias = {1, 0, 2};
const Values kFolded = {-0.980580487, -0.392232195, 1.372812682};

ZooNet basic() {
  return ZooNet(DType::f64, 1, [](ZooNet& n) -> std::vector<Variable> {
    return {norm(n, "norm", n.linear("fc", row({1, 1}), 3))};
  });
}

void set_basic(const Module& m) {
  set(m, "fc.weight", kWeight);
  set(m, "fc.bias", kBias);
}

}  // namespace

TEST_CASE("P22: a Linear and its LayerNorm") {
  ZooNet net = basic();
  set_basic(net);
  check_close(output(net), kFolded, kDigits);
  const FoldPlan plan = plan_of(net);
  REQUIRE(plan.norms == std::vector<std::string>{"norm"});
  apply_fold(net, plan);
  check_close(values(net, "fc.weight"), {-2, -3, 0, -1, 2, 4}, kDigits);
  check_close(values(net, "fc.bias"), {0, -1, 1}, kDigits);
  check_close(output(net), kFolded, kDigits);
  CHECK(dynamic_cast<LayerNorm&>(*net.find("norm")).eps() == 1e-5);

  // The two known mistakes give other numbers: no centring, and centring over the inputs.
  ZooNet uncentred = basic();
  set_basic(uncentred);
  FoldPlan wrong = plan;
  wrong.centre.clear();
  apply_fold(uncentred, wrong);
  check_close(output(uncentred), {0.386695, 0.676716, 1.546778}, kSixDigits);
  ZooNet transposed = basic();
  set_basic(transposed);
  wrong.centre = {{"fc.weight", "fc", whole_axis({3, 2}, 1)},
                  {"fc.bias", "fc", whole_axis({3}, 0)}};
  apply_fold(transposed, wrong);
  check_close(output(transposed), {0, -1.224736, 1.224736}, kSixDigits);
}

TEST_CASE("P23: the token and the position table are both centred") {
  const auto make = [] {
    return ZooNet(DType::f64, 1, [](ZooNet& n) -> std::vector<Variable> {
      const Tensor first = Tensor::from(std::vector<int32_t>{0}, {1});
      const Variable p = n.embedding("positions", first, 1, 3, Role::position);
      return {norm(n, "norm", add(n.embedding("tokens", first, 1, 3), p))};
    });
  };
  const Values right = {-1.388728662, 0.462909554, 0.925819108};
  ZooNet net = make(), half = make();
  for (ZooNet* n : {&net, &half}) {
    set(*n, "tokens.weight", {1, 2, 6});
    set(*n, "positions.weight", {0, 3, 0});
  }
  check_close(output(net), right, kDigits);
  FoldPlan plan = plan_of(net);
  apply_fold(net, plan);
  check_close(output(net), right, kDigits);
  check_close(values(net, "tokens.weight"), {-2, -1, 3}, kDigits);
  check_close(values(net, "positions.weight"), {-1, 2, -1}, kDigits);

  plan.centre = {{"tokens.weight", "tokens", whole_axis({1, 3}, 1)}};
  apply_fold(half, plan);
  check_close(output(half), {-0.840167, 0.840167, 1.260251}, kSixDigits);
}

TEST_CASE("P26: a post-norm is refused") {
  Tensor stream;
  ZooNet net(DType::f64, 1, [&](ZooNet& n) -> std::vector<Variable> {
    const Variable a = norm(n, "norm1", row({1, 2, 4}));
    stream = a.value();
    return {norm(n, "norm2", add(a, n.linear("f", a, 3)))};
  });
  set(net, "norm1.gamma", {2, 1, -1});
  set(net, "norm1.beta", {0.5, 0, 1});
  const Values a = (output(net), stream.to_vector<double>());
  CHECK((a[0] + a[1] + a[2]) / 3 == Approx(-0.747215).margin(kSixDigits));
  const Detection d = detect_in(net, false);
  REQUIRE(d.norms.size() == 2);
  CHECK(d.norms[1].verdict == Verdict::not_foldable);
  CHECK(d.norms[1].blocking == "norm1");
  CHECK(d.norms[1].reason.find("gain or bias") != std::string::npos);
  CHECK(plan_of(net).empty());
}

TEST_CASE("P27: a model of RMSNorms is left alone") {
  const auto make = [] {
    return ZooNet(DType::f64, 1, [](ZooNet& n) -> std::vector<Variable> {
      const Tensor first = Tensor::from(std::vector<int32_t>{0}, {1});
      const Variable x = n.embedding("tokens", first, 1, 3);
      return {n.layer<RMSNorm>("norm", int64_t{3}, 1e-6, true, DType::f64).forward(x, n.context())};
    });
  };
  const Values right = {0.462910, 0.925820, 1.388730};
  ZooNet net = make();
  set(net, "tokens.weight", {1, 2, 3});
  const FoldPlan plan = plan_of(net);
  CHECK(plan.empty());
  CHECK(plan.centre.empty());
  const NamedTensors before = copied(net);
  apply_fold(net, plan);
  CHECK(same_bits(before, copied(net)));
  check_close(output(net), right, kSixDigits);

  FoldPlan wrong;
  wrong.centre = {{"tokens.weight", "tokens", whole_axis({1, 3}, 1)}};
  apply_fold(net, wrong);
  check_close(output(net), {-1.224744, 0, 1.224744}, kSixDigits);
}

// A shift of all logits: nothing to a softmax, but not to logits that are capped before it. So the
// head stays as it is.
TEST_CASE("P29: the head is not centred, and capped logits are not blind to it") {
  const auto capped = [](const Variable& z) { return scale(tanh(scale(z, 1.0 / 30)), 30); };
  const auto probabilities = [](const Variable& z) {
    return softmax(z).value().to_vector<double>();
  };
  const Variable z = row({1, 2, 3}), shifted = row({11, 12, 13});
  check_close(probabilities(shifted), probabilities(z), kDigits);
  CHECK(std::abs(probabilities(capped(shifted))[2] - probabilities(capped(z))[2]) > 0.01);

  for (const bool cap : {false, true}) {
    ZooNet net(DType::f64, 1, [&](ZooNet& n) -> std::vector<Variable> {
      const Variable logits = n.linear("head", norm(n, "norm", n.linear("fc", row({1, 1}), 3)), 4);
      return {softmax(cap ? capped(logits) : logits)};
    });
    set_basic((net.run({}, 1), net));
    const FoldPlan plan = plan_of(net);
    CHECK(plan.norms == std::vector<std::string>{"norm"});
    CHECK(plan.changed_parameters() == std::vector<std::string>{"fc.bias", "fc.weight"});
    // What the rules say of the head's output.
    Tape tape;
    const TapeScope scope(&tape);
    const Graph graph = graph_of(tape, net.run({}, 1), false);
    const auto kind = [&](const std::string& op) {
      for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
        if (graph.nodes[n].op != op) continue;
        const Shape& shape = graph.values[graph.nodes[n].inputs[0]].shape;
        return shift(graph, n, 0, whole_axis(shape, -1)).kind;
      }
      throw Error("no such op: " + op);
    };
    CHECK(kind("softmax") == Shift::blind);
    if (cap) CHECK(kind("tanh") == Shift::spoils);
  }
}

TEST_CASE("P32: a Conv1D is centred over its stored last axis") {
  const auto make = [](int64_t in, const Values& x) {
    return std::make_unique<ZooNet>(DType::f64, 1, [in, x](ZooNet& n) -> std::vector<Variable> {
      return {norm(n, "norm", n.conv1d("c_fc", Tensor::from(x, {1, 1, in}), 3))};
    });
  };
  const auto net = make(2, {1, 1});
  set(*net, "c_fc.weight", {1, 3, 5, 2, 4, 9});
  set(*net, "c_fc.bias", kBias);
  check_close(output(*net), kFolded, kDigits);
  apply_fold(*net, plan_of(*net));
  check_close(values(*net, "c_fc.weight"), {-2, 0, 2, -3, -1, 4}, kDigits);
  check_close(output(*net), kFolded, kDigits);

  // A square one: the shapes do not tell the axes apart.
  const auto square = make(3, {1, 1, 2});
  set(*square, "c_fc.weight", {1, 3, 5, 2, 4, 9, 1, 0, 2});
  const Values before = output(*square);
  apply_fold(*square, plan_of(*square));
  check_close(values(*square, "c_fc.weight"), {-2, 0, 2, -3, -1, 4, 0, -1, 1}, kDigits);
  check_close(output(*square), before, kDigits);
}

TEST_CASE("P33: a head that shares the table still reads what it read") {
  for (HeadTie tie : {HeadTie::rank_one, HeadTie::untie, HeadTie::runtime}) {
    INFO(head_tie_name(tie));
    const ZooNetwork zoo = zoo_network("tied");
    const auto source = zoo.make(DType::f64, 1), folded = zoo.make(DType::f64, 1);
    const FoldPlan plan = plan_fold(detect_in(*source, false), {tie, false});
    REQUIRE(plan.ties.size() == 1);
    CHECK(plan.ties[0].parameter == "tokens.weight");
    CHECK(plan.ties[0].head == "head");
    CHECK(plan.tied == tie);  // which way is on record
    apply_fold(folded->module(), plan);
    CHECK(output_difference(outputs_of(*source, false), outputs_of(*folded, false)) < 1e-10);
    // The embedding changes by its rows' means only, and not at all where P runs instead.
    const Values was = values(source->module(), "tokens.weight"),
                 is = values(folded->module(), "tokens.weight");
    for (size_t r = 0; r < was.size(); r += 8) {
      double mean = 0;
      for (size_t c = 0; c < 8; ++c) mean += was[r + c] / 8;
      if (tie == HeadTie::runtime) mean = 0;
      for (size_t c = 0; c < 8; ++c) CHECK(is[r + c] == Approx(was[r + c] - mean).margin(1e-12));
    }
  }
}

}  // namespace cbwc::testing
