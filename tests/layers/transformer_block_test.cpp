// The shared block: what a mask and `causal` let a token see, sizes, and GPT's parameter names.
#include "layers/transformer_block.h"

#include "layers/compare.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"
#include "tests/support/small_gpt.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr int64_t kBatch = 2, kTokens = 5, kDim = 8;
// Only blocks of another length are summed in another order.
constexpr double kRounding = 1e-13;
constexpr double kVisible = 1e-3;

struct Root : Module {
  Root() : Module(nullptr, "") {}
  std::string describe() const override { return "root"; }
};

struct Net {
  Root root;
  TransformerBlock block;
  explicit Net(const BlockOptions& o)
      : block(&root, "block", o, Init{3, DType::f64, 0.4}, Init{3, DType::f64, 0.4}) {
    randomize_norms(root, 5);
  }
};

BlockOptions options(bool causal, Placement placement = Placement::pre,
                     QkNorm qk_norm = QkNorm::none) {
  BlockOptions o;
  o.attention = {kDim, 2, qk_norm};
  o.attention.causal = causal;
  o.placement = placement;
  return o;
}

Tensor row(const Tensor& y, int64_t t) { return y.slice(1, t, t + 1).contiguous(); }

// x with token t of every sample moved.
Tensor moved(const Tensor& x, int64_t t) {
  Tensor y = x.clone();
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t c = 0; c < kDim; ++c) y.data<double>()[(b * kTokens + t) * kDim + c] += c % 3;
  return y;
}

}  // namespace

TEST_CASE("a causal block's token sees those before it, another block's token all") {
  const Tensor x = sample({kBatch, kTokens, kDim}, 1, "x");
  for (const bool causal : {true, false})
    for (const Placement placement : {Placement::pre, Placement::post})
      for (const QkNorm qk : {QkNorm::none, QkNorm::layernorm}) {
        Net net(options(causal, placement, qk));
        const Tensor a = net.block.forward(x, {}).value();
        const Tensor b = net.block.forward(moved(x, 2), {}).value();
        const double before = relative_difference(row(a, 1), row(b, 1));
        CHECK((before == 0) == causal);
        CHECK(relative_difference(row(a, 4), row(b, 4)) > kVisible);
      }
}

TEST_CASE("a masked token is as good as absent") {
  const Tensor x = sample({kBatch, kTokens, kDim}, 1, "x");
  const Tensor mask = Tensor::from<int32_t>({1, 1, 1, 0, 0, 1, 1, 1, 0, 0}, {kBatch, kTokens});
  for (const Placement placement : {Placement::pre, Placement::post})
    for (const QkNorm qk : {QkNorm::none, QkNorm::rmsnorm}) {
      Net net(options(false, placement, qk));
      const Tensor padded = net.block.forward(x, {}, mask).value();
      const Tensor alone = net.block.forward(x.slice(1, 0, 3).contiguous(), {}).value();
      const Tensor unmasked = net.block.forward(x, {}).value();
      CHECK(relative_difference(alone, padded.slice(1, 0, 3).contiguous()) < kRounding);
      CHECK(relative_difference(alone, unmasked.slice(1, 0, 3).contiguous()) > kVisible);
    }
  Net net(options(false));
  CHECK_THROWS_WITH(net.block.forward(x, {}, Tensor::zeros({kBatch, 4}, DType::i32)),
                    ContainsSubstring("key_mask"));
}

TEST_CASE("the MLP's width and activation are the block's options") {
  BlockOptions o = options(false);
  o.hidden = 12;
  o.activation = Activation::relu;
  Net net(o);
  CHECK(net.root.parameter("block.mlp.up.weight")->value().shape() == Shape{12, kDim});
  CHECK(net.root.summary().find("MLP 8 -> 12 -> 8, ReLU") != std::string::npos);
  const Tensor x = sample({kBatch, kTokens, kDim}, 1, "x");
  Net gelu(options(false));
  CHECK(gelu.root.parameter("block.mlp.up.weight")->value().shape() == Shape{4 * kDim, kDim});
  CHECK(net.block.forward(x, {}).value().shape() == x.shape());
}

TEST_CASE("GPT's block keeps its parameters' names") {
  const Gpt model(small_gpt(Norm::layernorm), 1);
  std::string names;
  for (const ParameterPtr& p : model.parameters()) {
    if (p->name().starts_with("blocks.0.")) names += p->name().substr(9) + " ";
  }
  CHECK(names ==
        "norm1.gamma norm1.beta attn.qkv.weight attn.qkv.bias attn.out.weight attn.out.bias "
        "norm2.gamma norm2.beta mlp.up.weight mlp.up.bias mlp.down.weight mlp.down.bias ");
}
