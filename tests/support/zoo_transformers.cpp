// Whole language models, two blocks deep and eight wide.
#include "autograd/ops/elementwise.h"
#include "layers/gpt.h"
#include "tests/support/zoo.h"

namespace cbwc::testing {
namespace {

using Outputs = std::vector<Variable>;
constexpr int64_t kBatch = 2, kTokens = 5, kDim = 8, kVocab = 11, kLayers = 2;

// ---- this project's own GPT --------------------------------------------------------------------

class ZooGpt : public ZooModel {
 public:
  ZooGpt(const GptConfig& config, uint64_t seed) : gpt_(config, seed) { randomize(gpt_, seed); }
  Module& module() override { return gpt_; }
  Outputs run(const Context& context, uint64_t input_seed) override {
    Rng rng(input_seed, "ids");
    std::vector<int32_t> ids(static_cast<size_t>(kBatch * kTokens));
    for (int32_t& id : ids) id = static_cast<int32_t>(rng.below(kVocab));
    return {gpt_.logits(Tensor::from(ids, {kBatch, kTokens}), context)};
  }

 private:
  Gpt gpt_;
};

GptConfig gpt_config() {
  GptConfig c;
  c.vocab = kVocab;
  c.layers = kLayers;
  c.dim = kDim;
  c.heads = 2;
  c.context = kTokens + 1;
  return c;
}

ZooNetwork gpt(std::string name, const GptConfig& config, std::vector<ZooNorm> norms) {
  const auto make = [config](DType dtype, uint64_t seed) -> std::unique_ptr<ZooModel> {
    GptConfig c = config;
    c.dtype = dtype;
    return std::make_unique<ZooGpt>(c, seed);
  };
  ZooNetwork out{std::move(name), make, std::move(norms)};
  const bool any = out.count(Verdict::foldable) > 0 && config.placement == Placement::pre;
  if (config.tied_head && any) out.ties = {"head"};
  return out;
}

// The first norm's stream is read raw; each later one's holds the affine output of the one before.
std::vector<ZooNorm> post_norms(const std::string& attention,
                                const std::vector<std::string>& start) {
  std::vector<ZooNorm> norms;
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string b = block_name(i);
    std::vector<std::string> first = i == 0 ? start : std::vector<std::string>{};
    first.push_back(b + ".attn.out");
    const std::string before = i == 0 ? b + attention : block_name(i - 1) + ".norm2";
    norms.push_back(refused(b + ".norm1", before, first));
    norms.push_back(refused(b + ".norm2", b + ".norm1", {b + ".mlp.down"}));
  }
  return norms;
}

std::vector<ZooNorm> all_refused(std::vector<ZooNorm> norms, const std::string& reason) {
  for (ZooNorm& n : norms) {
    n.verdict = Verdict::not_foldable;
    n.reason = reason;
  }
  return norms;
}

void add_gpts(std::vector<ZooNetwork>& out) {
  const std::vector<std::string> tables = {"wte", "wpe"};
  const std::vector<ZooNorm> pre = pre_norms(kLayers, tables);
  GptConfig c = gpt_config();
  out.push_back(gpt("gpt2", c, pre));
  c.norm_bias = false;
  out.push_back(gpt("gpt2 without norm biases", c, pre));
  c = gpt_config();
  c.tied_head = false;
  out.push_back(gpt("opt", c, pre));
  c.qk_norm = QkNorm::layernorm;
  out.push_back(gpt("gpt with qk norm", c, pre_norms(kLayers, tables, true)));
  c.qk_norm = QkNorm::rmsnorm;
  out.push_back(gpt("gpt with rms qk norm", c, pre));
  c = gpt_config();
  c.norm = Norm::rmsnorm;
  out.push_back(gpt("llama", c, {}));
  c = gpt_config();
  c.placement = Placement::post;
  c.tied_head = false;
  out.push_back(gpt("post-norm gpt", c, post_norms(".attn.qkv", tables)));

  c = gpt_config();
  c.dropout = c.attention_dropout = 0.2;
  const auto in_training = [&](const std::string& name, std::vector<ZooNorm> norms) {
    out.push_back(gpt("gpt2, " + name, c, norms));
    out.back().training = true;
  };
  out.push_back(gpt("gpt2 with dropout, evaluation", c, pre));
  c.tied_head = false;
  in_training("training, dropout of elements", all_refused(pre, "drops single elements"));
  c.tied_head = true;
  c.dropout_placement = DropoutPlacement::before_projection;
  in_training("training, dropout before the projection", pre);
  c.dropout_placement = DropoutPlacement::path;
  in_training("training, dropout of paths", pre);
  c = gpt_config();
  c.attention_dropout = 0.2;
  in_training("training, dropout of attention", pre);
}

// ---- others ------------------------------------------------------------------------------------

Variable words(ZooNet& n) {
  return n.embedding("words", n.ids("ids", {kBatch, kTokens}, kVocab), kVocab, kDim);
}

Variable positions(ZooNet& n) { return n.parameter("positions", {kTokens, kDim}, Role::position); }

// Parallel blocks: one norm feeds both branches.
Outputs phi(ZooNet& n) {
  Variable h = words(n);
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string b = block_name(i);
    const Variable u = n.layer_norm(b + ".norm", h);
    h = add(add(h, attend(n, b + ".attn", u)), feed(n, b + ".mlp", u));
  }
  return {n.linear("head", n.layer_norm("norm", h), kVocab)};
}

// A norm right after the embedding. post_residual: apply_residual_connection_post_layernorm.
Outputs bloom(ZooNet& n, bool post_residual) {
  Variable h = n.layer_norm("embedding_norm", words(n));
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string b = block_name(i);
    Variable u = n.layer_norm(b + ".norm1", h);
    h = add(post_residual ? u : h, attend(n, b + ".attn", u));
    u = n.layer_norm(b + ".norm2", h);
    h = add(post_residual ? u : h, feed(n, b + ".mlp", u));
  }
  return {n.tied_head("head", "words", n.layer_norm("norm", h))};
}

Variable post_norm_blocks(ZooNet& n, Variable h) {
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string b = block_name(i);
    h = n.layer_norm(b + ".norm1", add(h, attend(n, b + ".attn", h)));
    h = n.layer_norm(b + ".norm2", add(h, feed(n, b + ".mlp", h)));
  }
  return h;
}

// With the masked-language-model head: dense, GELU, norm, the tied decoder.
Outputs bert(ZooNet& n) {
  const Variable types = n.embedding("types", n.ids("type_ids", {kBatch, kTokens}, 2), 2, kDim);
  Variable h = n.layer_norm("embedding_norm", add(add(words(n), positions(n)), types));
  h = post_norm_blocks(n, h);
  h = n.layer_norm("mlm.norm", n.gelu("mlm.act", n.linear("mlm.dense", h, kDim)));
  const Variable logits = n.tied_head("mlm.decoder", "words", h);
  return {add(logits, n.parameter("mlm.bias", {kVocab}, Role::bias))};
}

// OPT-350m: narrow tables, projected in and out, post-norm.
Outputs opt_350m(ZooNet& n) {
  const Variable narrow = n.embedding("words", n.ids("ids", {kBatch, kTokens}, kVocab), kVocab, 4);
  Variable h = add(n.linear("project_in", narrow, kDim, false), positions(n));
  h = post_norm_blocks(n, h);
  return {n.tied_head("head", "words", n.linear("project_out", h, 4, false))};
}

std::vector<ZooNorm> bloom_norms() {
  std::vector<ZooNorm> norms = {folds("embedding_norm", {"words"})};
  for (int64_t i = 0; i < kLayers; ++i) {
    norms.push_back(with_auxiliary(block_name(i) + ".norm1"));
    norms.push_back(with_auxiliary(block_name(i) + ".norm2"));
  }
  norms.push_back(with_auxiliary("norm"));
  return norms;
}

// Every residual starts at an affine norm that a Linear reads too. Only the first norm could have
// an auxiliary centring, which would cost as much as it saves.
std::vector<ZooNorm> bloom_post_residual_norms() {
  std::vector<ZooNorm> norms = {folds("embedding_norm", {"words"}),
                                refused("blocks.0.norm1", "embedding_norm")};
  std::string before;
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string b = block_name(i);
    if (i > 0)
      norms.push_back(
          refused(b + ".norm1", before, {"blocks." + std::to_string(i - 1) + ".mlp.down"}));
    norms.push_back(refused(b + ".norm2", b + ".norm1", {b + ".attn.out"}));
    before = b + ".norm2";
  }
  norms.push_back(refused("norm", before, {"blocks.1.mlp.down"}));
  return norms;
}

std::vector<ZooNorm> bert_norms() {
  std::vector<ZooNorm> norms = post_norms(".attn.qkv", {});
  norms[0].blocking = "embedding_norm";
  norms.insert(norms.begin(), folds("embedding_norm", {"words", "positions", "types"}));
  norms.push_back(refused("mlm.norm", "mlm.act", {"mlm.dense"}));
  return norms;
}

}  // namespace

std::vector<ZooNetwork> zoo_transformers() {
  std::vector<ZooNetwork> out;
  add_gpts(out);
  out.push_back(
      network("phi", phi,
              {folds("blocks.0.norm", {"words"}),
               folds("blocks.1.norm", {"words", "blocks.0.attn.out", "blocks.0.mlp.down"}),
               folds("norm", {"words", "blocks.0.attn.out", "blocks.0.mlp.down",
                              "blocks.1.attn.out", "blocks.1.mlp.down"})}));
  out.push_back(network(
      "bloom", [](ZooNet& n) { return bloom(n, false); }, bloom_norms()));
  out.back().ties = {"head"};
  out.back().auxiliary = {"embedding_norm"};
  out.push_back(network(
      "bloom, residual after the norm", [](ZooNet& n) { return bloom(n, true); },
      bloom_post_residual_norms()));
  out.back().ties = {"head"};
  out.push_back(network("bert", bert, bert_norms()));
  out.back().ties = {"mlm.decoder"};
  out.push_back(
      network("opt-350m", opt_350m, post_norms(".attn.qkv", {"project_in", "positions"})));
  return out;
}

}  // namespace cbwc::testing
