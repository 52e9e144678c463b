// What folding changes in a model's modules: run-time centring, a norm that becomes RMSNorm, a tied
// head that is corrected or untied.
#include <cmath>

#include "autograd/ops/center.h"
#include "autograd/ops/layer_norm.h"
#include "autograd/ops/rms_norm.h"
#include "layers/embedding.h"
#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "layers/tied_linear.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"
#include "tests/support/small_gpt.h"
#include "tests/support/small_modules.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

const Init kInit{1, DType::f64, 0.5};
constexpr double kRounding = 1e-13;  // of a few sums of ten numbers in float64
constexpr double kVisible = 1e-3;    // a true difference is far above

}  // namespace

TEST_CASE("a module is found by its path") {
  Gpt model(small_gpt(Norm::layernorm), 1);
  Module* norm = model.find("blocks.1.norm2");
  REQUIRE(norm != nullptr);
  CHECK(norm->path() == "blocks.1.norm2");
  CHECK(model.find("") == &model);
  CHECK(model.find("blocks.1.attn.out") != nullptr);
  CHECK(model.find("blocks.1.norm") == nullptr);
  CHECK(model.find("head") != nullptr);
}

TEST_CASE("norms and embeddings centre their output on request; others say that they cannot") {
  Root root;
  LayerNorm norm(&root, "norm", 6, 1e-5, true, DType::f64);
  Embedding table(&root, "table", 5, 6, Role::embedding, kInit);
  Linear linear(&root, "linear", 6, 6, true, kInit);
  randomize_norms(root, 3);
  const Tensor x = sample({4, 6}, 1, "x");
  const Tensor ids = Tensor::from(std::vector<int32_t>{4, 0, 4}, {3});
  const Tensor plain = norm.forward(x, {}).value(), rows = table.forward(ids).value();
  CHECK(difference(center(plain, -1), plain) > kVisible);

  CHECK(norm.centre_output());
  CHECK(table.centre_output());
  CHECK_FALSE(linear.centre_output());
  CHECK(difference(norm.forward(x, {}).value(), center(plain, -1)) <= kRounding);
  CHECK(difference(table.forward(ids).value(), center(rows, -1)) <= kRounding);
  CHECK(difference(center(rows, -1), rows) > kVisible);
}

TEST_CASE("a LayerNorm becomes an RMSNorm with its own eps, gain and bias") {
  Root root;
  LayerNorm norm(&root, "norm", 6, 0.3, true, DType::f64);
  randomize_norms(root, 3);
  const Tensor x = sample({4, 6}, 1, "x");
  const auto gamma = norm.gamma()->value(), beta = norm.beta()->value();
  CHECK_FALSE(norm.is_rms_norm());
  CHECK(difference(norm.forward(x, {}).value(), layer_norm(x, gamma, beta, 0.3).value()) == 0);
  norm.become_rms_norm();
  CHECK(norm.is_rms_norm());
  CHECK(difference(norm.forward(x, {}).value(), rms_norm(x, gamma, beta, 0.3).value()) == 0);
  CHECK(norm.describe().find("RMSNorm") == 0);
  CHECK(root.parameters().size() == 2);
}

TEST_CASE("a tied head whose table was centred is corrected by rank one or untied") {
  for (const bool untie : {false, true}) {
    Root root;
    Embedding table(&root, "wte", 7, 6, Role::embedding, kInit);
    TiedLinear head(&root, "head", table.weight());
    const Tensor raw = table.weight()->value().clone(), h = sample({2, 3, 6}, 1, "h");
    const Tensor expected = head.forward(h).value();
    CHECK(root.parameters().size() == 1);

    const Tensor centred = center(raw, -1);
    Tensor means = Tensor::zeros({7}, DType::f64);
    for (int r = 0; r < 7; ++r) {
      for (int c = 0; c < 6; ++c) means.data<double>()[r] += raw.data<double>()[6 * r + c] / 6;
    }
    table.weight()->mutate().copy_from(centred);
    CHECK(difference(head.forward(h).value(), expected) > kVisible);
    CHECK_THROWS_WITH(head.correct_rank_one(raw), ContainsSubstring("head"));
    untie ? head.untie(raw) : head.correct_rank_one(means);
    CHECK(difference(head.forward(h).value(), expected) <= kRounding);
    CHECK(head.state() == (untie ? TiedLinear::State::untied : TiedLinear::State::rank_one));
    REQUIRE(root.parameters().size() == 2);
    CHECK(root.parameters()[1]->name() == (untie ? "head.weight" : "head.row_means"));
    CHECK(root.parameters()[1]->trainable() == untie);
    CHECK_THROWS_WITH(head.untie(raw), ContainsSubstring("already"));
  }
}

TEST_CASE("sinusoidal positions are a fixed table") {
  Root root;
  SinusoidalPositions positions(&root, "wpe", 5, 4, DType::f64);
  const std::vector<double> t = positions.weight()->value().to_vector<double>();
  CHECK(t[0] == 0);
  CHECK(t[1] == 1);
  CHECK(std::abs(t[3 * 4 + 2] - std::sin(0.03)) <= kRounding);
  CHECK(std::abs(t[3 * 4 + 3] - std::cos(0.03)) <= kRounding);
  CHECK_FALSE(positions.weight()->trainable());
  randomize_norms(root, 3);
  CHECK(positions.weight()->value().to_vector<double>() == t);
}
