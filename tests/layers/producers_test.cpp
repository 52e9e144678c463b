// Every kind of layer in front of a norm: the layernorm and cbwc_rmsnorm arms are one function and
// one training, and the trained model folds (method.md 3).
#include "autograd/ops/center.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "layers/compare.h"
#include "layers/conv2d.h"
#include "layers/folding.h"
#include "layers/layer_norm.h"
#include "layers/low_rank.h"
#include "optim/adamw.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"
#include "tests/support/producer_nets.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kOutput = 1e-12;    // a few hundred roundings of 1.1e-16
constexpr double kGradient = 1e-10;  // as method.md 8 asks
constexpr double kWeights = 1e-8;    // after the AdamW steps, which enlarge small differences
constexpr double kVisible = 1e-3;    // a true difference is far above

struct Step {
  Tensor output;
  NamedTensors gradients;
  int centrings = 0;
};

Step run_step(ProducerNet& net, uint64_t seed) {
  Step out;
  net.clear_grads();
  Tape tape;
  const TapeScope scope(&tape);
  const Variable y = net.run(seed);
  const Variable error = sub(y, Variable(sample(y.shape(), seed, "target")));
  for (const TapeNode& n : tape.nodes()) out.centrings += std::string(n.op->name()) == "center";
  tape.backward(mean(mul(error, error)));
  out.output = y.value().clone();
  for (const auto& [name, grad] : gradients(net)) out.gradients.emplace(name, grad.clone());
  return out;
}

std::unique_ptr<ProducerNet> make(const Producer& p, Norm norm) {
  auto net = p.make(norm);
  randomize_all(*net, 3);
  return net;
}

NamedTensors train(const Producer& p, Norm norm) {
  const auto net = make(p, norm);
  FlatParameters flat(net->parameters());
  AdamW optimiser(flat, {0.9, 0.95, 1e-8, 0.1});
  for (uint64_t step = 0; step < 20; ++step) {
    run_step(*net, 10 + step);
    optimiser.step(1e-2);
  }
  NamedTensors state;
  for (const auto& [name, value] : net->state()) state.emplace(name, value.clone());
  return state;
}

// Each block of rows minus its mean over the rows.
Tensor centred(const Tensor& value, int64_t blocks) {
  const int64_t rows = value.size(0) / blocks;
  const Tensor stacked = value.reshape({blocks, rows, value.numel() / (blocks * rows)});
  return center(stacked, 1).reshape(value.shape());
}

double output_difference(const Tensor& expected, ProducerNet& net) {
  return relative_difference(expected, net.run(1).value());
}

}  // namespace

TEST_CASE("every producer: the arms are one function and one training") {
  for (const Producer& p : producers()) {
    INFO(p.name);
    const auto reference = make(p, Norm::layernorm), model = make(p, Norm::cbwc_rmsnorm);
    CHECK(relative_difference(reference->state(), model->state()).largest == 0);
    const Step a = run_step(*reference, 1), b = run_step(*model, 1);
    CHECK(relative_difference(a.output, b.output) <= kOutput);
    CHECK(output_difference(b.output, *model) == 0);  // without a tape
    const Difference d = relative_difference(a.gradients, b.gradients);
    INFO("worst gradient " << d.name);
    CHECK(d.largest <= kGradient);
    CHECK(a.centrings == 0);
    CHECK(b.centrings == p.centrings);

    const NamedTensors expected = train(p, Norm::layernorm);
    const Difference t = relative_difference(expected, train(p, Norm::cbwc_rmsnorm));
    INFO("worst parameter " << t.name);
    CHECK(t.largest <= kWeights);
    CHECK(relative_difference(expected, train(p, Norm::rmsnorm)).largest > kVisible);
    CHECK(relative_difference(expected, reference->state()).largest > kVisible);  // it did train
  }
}

TEST_CASE("every producer: a writer left out of the centring is seen") {
  for (const Producer& p : producers()) {
    if (!p.by_hand) continue;
    INFO(p.name);
    const auto reference = make(p, Norm::layernorm), model = make(p, Norm::rmsnorm);
    const Tensor expected = reference->run(1).value();
    for (const Written& w : p.writers) {
      const ParameterPtr parameter = model->parameter(w.parameter);
      parameter->mutate().copy_from(centred(parameter->value(), w.blocks));
    }
    CHECK(output_difference(expected, *model) <= kOutput);
    for (const Written& w : p.writers) {
      INFO(w.parameter);
      const ParameterPtr parameter = model->parameter(w.parameter);
      const Tensor right = parameter->value().clone();
      parameter->mutate().copy_from(reference->parameter(w.parameter)->value());
      CHECK(output_difference(expected, *model) > kVisible);
      if (w.blocks > 1) {  // all gates together is not each gate
        parameter->mutate().copy_from(centred(reference->parameter(w.parameter)->value(), 1));
        CHECK(output_difference(expected, *model) > kVisible);
      }
      parameter->mutate().copy_from(right);
    }
  }
}

TEST_CASE("a LayerScale is multiplied in before the centring, not after") {
  for (const Producer& p : producers()) {
    if (p.name != "layer scale") continue;
    const auto reference = make(p, Norm::layernorm);
    const Tensor expected = reference->run(1).value();
    const Tensor gain = reference->parameter("branch.scale.gain")->value();
    for (const bool first : {true, false}) {
      const auto model = make(p, Norm::rmsnorm);
      for (const Written& w : p.writers) {
        const ParameterPtr parameter = model->parameter(w.parameter);
        const bool scaled = first && w.parameter.find("branch") == 0;
        const Tensor column = gain.reshape(parameter->value().rank() == 2 ? Shape{8, 1} : Shape{8});
        const Tensor value =
            scaled ? mul(parameter->value(), column).value() : parameter->value().clone();
        parameter->mutate().copy_from(centred(value, 1));
      }
      if (first) model->parameter("branch.scale.gain")->mutate().fill(1.0);
      const double d = output_difference(expected, *model);
      CHECK((first ? d <= kOutput : d > kVisible));
    }
  }
}

TEST_CASE("every producer: the layernorm arm folds") {
  for (const Producer& p : producers()) {
    INFO(p.name);
    const auto net = make(p, Norm::layernorm), careless = make(p, Norm::layernorm);
    Tensor expected;
    Graph graph;
    {
      Tape tape;
      const TapeScope scope(&tape);
      const Variable y = net->run(1);
      expected = y.value().clone();
      graph = graph_of(tape, {y}, false);
    }
    const Detection found = detect(graph);
    for (const DetectedNorm& n : found.norms) UNSCOPED_INFO(n.name << ": " << n.reason);
    REQUIRE(found.norms.size() == static_cast<size_t>(p.norms));
    CHECK(found.count(Verdict::foldable) == p.foldable);
    const FoldPlan plan = plan_fold(found, {});
    apply_fold(*net, plan);
    CHECK(output_difference(expected, *net) <= kOutput);
    for (const std::string& name : plan.norms) {
      CHECK(dynamic_cast<LayerNorm&>(*net->find(name)).is_rms_norm());
      dynamic_cast<LayerNorm&>(*careless->find(name)).become_rms_norm();
    }
    CHECK(output_difference(expected, *careless) > kVisible);
  }
}

TEST_CASE("a centred weight is made once per tape and follows the parameters") {
  for (const Producer& p : producers()) {
    INFO(p.name);
    const auto reference = make(p, Norm::layernorm), model = make(p, Norm::cbwc_rmsnorm);
    model->run(1);
    for (const auto& net : {reference.get(), model.get()}) randomize_all(*net, 4);
    CHECK(output_difference(reference->run(1).value(), *model) <= kOutput);
    // Two micro-batches of one step, each on its own tape: both gradients arrive.
    model->clear_grads();
    NamedTensors sums = run_step(*model, 1).gradients;
    model->clear_grads();
    for (int batch = 0; batch < 2; ++batch) {
      Tape tape;
      const TapeScope scope(&tape);
      const Variable y = model->run(1);
      const Variable error = sub(y, Variable(sample(y.shape(), 1, "target")));
      tape.backward(mean(mul(error, error)));
    }
    NamedTensors halves;
    for (const auto& [name, grad] : gradients(*model)) {
      halves.emplace(name, scale(grad, 0.5).value());
    }
    CHECK(relative_difference(sums, halves).largest <= kGradient);
  }
}

TEST_CASE("a grouped convolution refuses to be centred") {
  const Conv2dConfig depthwise{4, 4, 3, {.padding = 1, .groups = 4}};
  const Init init{1, DType::f64, 0.5};
  CHECK_THROWS_WITH(Conv2d(nullptr, "conv", depthwise, true, init),
                    ContainsSubstring("conv") && ContainsSubstring("4 groups"));
  Conv2d plain(nullptr, "conv", depthwise, false, init);
  CHECK(plain.forward(sample({2, 4, 5, 5}, 1, "x")).shape() == Shape{2, 4, 5, 5});
  CHECK(plain.describe().find("groups 4") != std::string::npos);
}

TEST_CASE("a new LoRA layer equals its base; frozen, only the side branch is trained") {
  LowRankLinear layer(nullptr, "fc", {5, 8, 2, 3.0}, true, {1, DType::f64, 0.5});
  const Tensor x = sample({3, 5}, 1, "x");
  const Tensor base = center(layer.base().weight()->value(), 0);
  const Tensor before = layer.forward(x).value();
  Linear plain(nullptr, "plain", 5, 8, false, {1, DType::f64, 0.5});
  plain.weight()->mutate().copy_from(base);
  CHECK(relative_difference(plain.forward(x).value(), before) <= kOutput);
  layer.freeze_base();
  Rng rng(5, "up");
  fill_normal(layer.up().weight()->mutate(), 0.3, 0.5, rng);
  Tape tape;
  const TapeScope scope(&tape);
  const Variable y = layer.forward(x);
  CHECK(relative_difference(before, y.value()) > kVisible);
  tape.backward(sum(mul(y, y)));
  CHECK(layer.up().weight()->has_grad());
  CHECK(layer.down().weight()->has_grad());
  CHECK_FALSE(layer.base().weight()->has_grad());
  CHECK_FALSE(layer.base().bias()->has_grad());
}
