// The single layers: known values, the centred proxy, saving and loading, gradients that arrive.
#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "layers/centered_embedding.h"
#include "layers/centered_linear.h"
#include "layers/compare.h"
#include "layers/norm.h"
#include "tests/support/catch.h"
#include "tests/support/small_modules.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

const Init kInit{1, DType::f64, 0.5};
constexpr double kListed = 1e-9;  // the cases list nine digits

Tensor input(int64_t rows, int64_t cols) {
  Tensor x = Tensor::zeros({rows, cols}, DType::f64);
  Rng rng(9, "input");
  fill_normal(x, 0.7, 1.0, rng);
  return x;
}

}  // namespace

TEST_CASE("P22: a centred layer under RMSNorm is a plain one under LayerNorm") {
  Root root;
  CenteredLinear layer(&root, "layer", 2, 3, true, kInit);
  set(layer.weight(), {1, 2, 3, 4, 5, 9});
  set(layer.bias(), {1, 0, 2});
  const auto norm = make_norm(&root, "norm", Norm::cbwc_rmsnorm, 3, 1e-5, true, DType::f64);
  const Tensor h = Tensor::full({1, 2}, 1.0, DType::f64);
  check_values(norm->forward(layer.forward(h), {}).value(),
               {-0.980580487, -0.392232195, 1.372812682}, kListed);
}

TEST_CASE("P23: token and position rows are both centred") {
  Root root;
  CenteredEmbedding tokens(&root, "wte", 1, 3, Role::embedding, kInit);
  CenteredEmbedding positions(&root, "wpe", 1, 3, Role::position, kInit);
  set(tokens.weight(), {1, 2, 6});
  set(positions.weight(), {0, 3, 0});
  const auto norm = make_norm(&root, "norm", Norm::cbwc_rmsnorm, 3, 1e-5, true, DType::f64);
  const Tensor id = Tensor::from(std::vector<int32_t>{0}, {1});
  Tensor sum = tokens.forward(id).value().clone();
  const Tensor p = positions.forward(id).value();
  for (int i = 0; i < 3; ++i) sum.data<double>()[i] += p.data<double>()[i];
  check_values(norm->forward(sum, {}).value(), {-1.388728662, 0.462909554, 0.925819108}, kListed);
}

TEST_CASE("P35: the proxy is initialised and centred once per version, on every tape") {
  Root root;
  CenteredLinear layer(&root, "layer", 4, 3, true, kInit);
  const Tensor a = input(5, 4);
  layer.forward(a);
  layer.forward(a);
  CHECK(layer.centered_weight().computed() == 1);

  // Initialising after a first use must reach the output.
  const Tensor before = layer.forward(a).value().clone();
  Rng rng(2, "again");
  fill_normal(layer.weight()->mutate(), 0, 1, rng);
  CHECK(relative_difference(before, layer.forward(a).value()) > 0.1);
  CHECK(layer.centered_weight().computed() == 2);

  // Two micro-batches, two uses each: one centring, one node per tape, twice the gradient.
  Tensor one;
  for (int batch = 0; batch < 2; ++batch) {
    Tape tape;
    const TapeScope scope(&tape);
    const Variable y = add(layer.forward(a), layer.forward(a));
    int centrings = 0;
    for (const TapeNode& n : tape.nodes()) centrings += std::string(n.op->name()) == "center";
    CHECK(centrings == 2);  // weight and bias
    tape.backward(norm(y));
    if (batch == 0) one = layer.weight()->grad().clone();
  }
  CHECK(layer.centered_weight().computed() == 2);
  const Tensor two = layer.weight()->grad();
  for (int64_t i = 0; i < two.numel(); ++i) {
    CHECK(std::abs(two.data<double>()[i] - 2 * one.data<double>()[i]) <= 1e-14);
  }
  // The gradient of the proxy has zero column means: dW = P dV.
  for (int64_t c = 0; c < 4; ++c) {
    CHECK(std::abs(one.data<double>()[c] + one.data<double>()[4 + c] + one.data<double>()[8 + c]) <=
          1e-14);
  }
}

TEST_CASE("a centred layer without bias works and follows a load") {
  Root root;
  CenteredLinear layer(&root, "layer", 4, 3, false, kInit);
  CHECK(layer.bias() == nullptr);
  const Tensor a = input(2, 4);
  const Tensor before = layer.forward(a).value().clone();
  NamedTensors state;
  for (const auto& [name, value] : root.state()) {
    state.emplace(
        name, Tensor::from(std::vector<double>{9, 2, 3, 4, 5, 6, 7, 8, 1, 0, 1, 2}, value.shape()));
  }
  root.load_state(state);
  const Tensor after = layer.forward(a).value();
  CHECK(relative_difference(before, after) > 0.1);
  for (int r = 0; r < 2; ++r) {
    const double* y = after.data<double>() + 3 * r;
    CHECK(std::abs(y[0] + y[1] + y[2]) <= 1e-13);
  }
}

TEST_CASE("P40: every parameter around a norm gets a gradient") {
  for (const Norm kind : {Norm::layernorm, Norm::rmsnorm, Norm::cbwc_rmsnorm}) {
    Root root;
    const auto first = make_linear(centres_writers(kind), &root, "first", 4, 6, true, kInit);
    const auto middle = make_norm(&root, "norm", kind, 6, 1e-5, true, DType::f64);
    Linear last(&root, "last", 6, 3, true, kInit);
    Tape tape;
    const TapeScope scope(&tape);
    tape.backward(norm(last.forward(middle->forward(first->forward(input(5, 4)), {}))));
    CHECK(root.parameters().size() == 6);
    for (const ParameterPtr& p : root.parameters()) {
      INFO(norm_name(kind) << " " << p->name());
      REQUIRE(p->has_grad());
      CHECK(relative_difference(p->grad(), Tensor::zeros_like(p->grad())) == 1.0);
    }
  }
}

TEST_CASE("the tree names its parameters, and a load is all or nothing") {
  Root root;
  Linear layer(&root, "a.b", 2, 2, true, kInit);
  CHECK(layer.path() == "a.b");
  REQUIRE(root.parameters().size() == 2);
  CHECK(root.parameters()[0]->name() == "a.b.weight");
  CHECK(root.parameter_count() == 6);
  CHECK(root.summary().find("Linear 2 -> 2, 6 parameters") != std::string::npos);
  CHECK_THROWS_AS(root.parameter("a.b.gain"), Error);

  const Tensor weight = layer.weight()->value().clone();
  NamedTensors good;
  for (const auto& [name, value] : root.state()) {
    good.emplace(name, Tensor::full(value.shape(), 3.0, DType::f64));
  }
  NamedTensors bad = good;
  bad.erase("a.b.bias");
  CHECK_THROWS_WITH(root.load_state(bad), ContainsSubstring("a.b.bias"));
  bad["a.b.bias"] = Tensor::zeros({3}, DType::f64);
  CHECK_THROWS_WITH(root.load_state(bad), ContainsSubstring("shape"));
  bad["a.b.bias"] = Tensor::zeros({2}, DType::f32);
  CHECK_THROWS_AS(root.load_state(bad), Error);
  bad = good;
  bad["other"] = Tensor::zeros({2}, DType::f64);
  CHECK_THROWS_WITH(root.load_state(bad), ContainsSubstring("other"));
  CHECK(relative_difference(weight, layer.weight()->value()) == 0);
  root.load_state(good);
  CHECK(layer.weight()->value().to_vector<double>()[3] == 3.0);
}

TEST_CASE("relative differences are floored by the set's largest value") {
  const auto one = [](double v) { return Tensor::full({1}, v, DType::f64); };
  const NamedTensors a = {{"big", one(1.0)}, {"noise", one(1e-17)}};
  const NamedTensors b = {{"big", one(1.0 + 1e-9)}, {"noise", one(-1e-17)}};
  const Difference d = relative_difference(a, b);
  CHECK(d.name == "big");
  CHECK(d.largest == Approx(1e-9).epsilon(1e-6));
  const NamedTensors c = {{"big", one(1.0)}, {"noise", one(NAN)}};
  CHECK(std::isinf(relative_difference(a, c).largest));
  CHECK_THROWS_AS(relative_difference(a, {{"big", one(1.0)}}), Error);
}
