#include "layers/gpt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/ops/center.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "layers/checkpoint_block.h"

namespace cbwc {
namespace {

GptConfig checked(const GptConfig& c) {
  CBWC_CHECK(c.vocab > 0 && c.layers > 0 && c.dim > 0 && c.heads > 0 && c.context > 0,
             "model: vocab, layers, dim, heads and context must be positive, got ", c.vocab, ", ",
             c.layers, ", ", c.dim, ", ", c.heads, ", ", c.context);
  CBWC_CHECK(c.dim % c.heads == 0, "model: dim ", c.dim, " is not divisible by heads ", c.heads);
  CBWC_CHECK(c.norm_eps >= 0 && std::isfinite(c.norm_eps), "model: norm_eps must be at least 0");
  CBWC_CHECK(c.init_std >= 0 && std::isfinite(c.init_std), "model: init_std must be at least 0");
  CBWC_CHECK(c.dtype == DType::f32 || c.dtype == DType::f64,
             "model: the element type must be float32 or float64");
  CBWC_CHECK(c.tied_head || c.folded_tie == FoldedTie::none,
             "model: folded_tie is for a tied head, and tied_head is false");
  return c;
}

void project(const ParameterPtr& parameter, int axis) {
  if (parameter == nullptr) return;
  const Tensor centered = center(parameter->value(), axis);
  parameter->mutate().copy_from(centered);
}

}  // namespace

Gpt::Gpt(const GptConfig& config, uint64_t seed)
    : Model(nullptr, ""),
      config_(checked(config)),
      branch_{config.norm, config.dropout_placement, config.dropout} {
  const Init init{seed, config_.dtype, config_.init_std};
  const Init output_init{seed, config_.dtype,
                         config_.init_std / std::sqrt(2.0 * static_cast<double>(config_.layers))};
  const bool centered = centres_weights(branch_);
  tokens_ = make_embedding(centered || config_.folded_tie == FoldedTie::runtime, this, "wte",
                           config_.vocab, config_.dim, Role::embedding, init);
  positions_ =
      make_embedding(centered, this, "wpe", config_.context, config_.dim, Role::position, init);
  const bool per_token = config_.dropout_placement == DropoutPlacement::before_projection ||
                         config_.dropout_placement == DropoutPlacement::path;
  dropout_ = per_token ? std::make_unique<TokenDropout>(this, "dropout", config_.dropout)
                       : std::make_unique<Dropout>(this, "dropout", config_.dropout);
  const BlockOptions block{{config_.dim, config_.heads, config_.qk_norm, config_.norm_eps,
                            config_.norm_bias, config_.attention_dropout},
                           branch_,
                           config_.placement,
                           activation_of(config_.gelu)};
  for (int64_t i = 0; i < config_.layers; ++i) {
    blocks_.push_back(std::make_unique<TransformerBlock>(this, fmt::format("blocks.{}", i), block,
                                                         init, output_init));
  }
  if (config_.placement == Placement::pre) {
    norm_ = make_norm(this, "norm", config_.norm, config_.dim, config_.norm_eps, config_.norm_bias,
                      config_.dtype);
  }
  if (config_.tied_head) {
    tied_head_ = std::make_unique<TiedLinear>(this, "head", tokens_->weight());
    if (config_.folded_tie == FoldedTie::rank_one)
      tied_head_->correct_rank_one(Tensor::zeros({config_.vocab}, config_.dtype));
  } else {
    head_ = std::make_unique<Linear>(this, "head", config_.dim, config_.vocab, false, init);
  }
  project_parameters();
}

std::string Gpt::describe() const {
  return fmt::format(
      "GPT, {} layers, dim {}, {} heads, context {}, vocabulary {}, {} ({}-norm), {} head",
      config_.layers, config_.dim, config_.heads, config_.context, config_.vocab,
      norm_name(config_.norm), placement_name(config_.placement),
      config_.tied_head ? "tied" : "untied");
}

Variable Gpt::embed(const Tensor& ids, const Context& context) {
  CBWC_CHECK(ids.rank() == 2 && ids.numel() > 0, "model: ids must have shape (B, T), got ",
             to_string(ids.shape()));
  const int64_t t = ids.size(1);
  CBWC_CHECK(t <= config_.context, "model: ", t, " tokens are more than the ", config_.context,
             " positions (model.context)");
  std::vector<int32_t> order(static_cast<size_t>(t));
  std::iota(order.begin(), order.end(), 0);
  const Tensor places = Tensor::from(order, {t}).to(ids.device());
  const Variable words = tokens_->forward(ids), where = positions_->forward(places);
  const Variable x = dropout_->forward(add(words, where), context);
  return centres_output(branch_) ? center(x, -1) : x;
}

Variable Gpt::stream(const Tensor& ids, const Context& context) {
  Variable x = embed(ids, context);
  for (auto& block : blocks_) x = run_block(*block, x, context);
  return x;
}

Variable Gpt::head(Variable x, const Context& context) {
  if (norm_ != nullptr) x = norm_->forward(x, context);
  return head_ != nullptr ? head_->forward(x) : tied_head_->forward(x);
}

Variable Gpt::logits(const ModelInput& input, const Context& context) {
  CBWC_CHECK(input.ids.defined(), "model: a GPT reads token ids, the input has none");
  return head(stream(input.ids, context), context);
}

ModelInput Gpt::example(int64_t batch, uint64_t seed) const {
  constexpr int64_t kTokens = 6;
  const int64_t tokens = std::min(kTokens, config_.context);
  Rng rng(seed, "example");
  std::vector<int32_t> ids(static_cast<size_t>(batch * tokens));
  for (int32_t& id : ids)
    id = static_cast<int32_t>(rng.below(static_cast<uint64_t>(config_.vocab)));
  return {Tensor::from(ids, {batch, tokens})};
}

Variable Gpt::last_logits(const Tensor& ids, const Context& context) {
  const Variable x = stream(ids, context);
  const Variable last = slice(x, 1, x.size(1) - 1, x.size(1));
  return reshape(head(last, context), {ids.size(0), config_.vocab});
}

std::vector<InexactPair> Gpt::inexact_pairs() const {
  std::vector<InexactPair> pairs;
  const bool element =
      config_.dropout > 0 && config_.dropout_placement == DropoutPlacement::element;
  const std::string dropped = fmt::format(
      "element-wise dropout {} between the centred layer and the norm", config_.dropout);
  const bool post = config_.placement == Placement::post;
  const auto embeddings = [&](const std::string& norm, const std::string& reason) {
    for (const Module* producer : {static_cast<const Module*>(tokens_.get()),
                                   static_cast<const Module*>(positions_.get())}) {
      pairs.push_back({producer->path(), norm, reason});
    }
  };
  if (post) {
    embeddings(blocks_[0]->norm1().path(),
               blocks_[0]->attention().path() +
                   " reads the stream before any norm, so centring it changes the function");
  }
  if (element) embeddings(blocks_[0]->norm1().path(), dropped);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const TransformerBlock& b = *blocks_[i];
    const std::string norm1 = b.norm1().path(), norm2 = b.norm2().path();
    const std::string affine = "the gain and bias of a norm leave its output with a mean";
    if (post && i > 0) pairs.push_back({blocks_[i - 1]->norm2().path(), norm1, affine});
    if (post) pairs.push_back({norm1, norm2, affine});
    if (!element) continue;
    const std::string after =
        i + 1 < blocks_.size() ? blocks_[i + 1]->norm1().path() : (post ? "" : norm_->path());
    pairs.push_back({b.attention().projection().path(), post ? norm1 : norm2, dropped});
    pairs.push_back({b.mlp().projection().path(), post ? norm2 : after, dropped});
  }
  return pairs;
}

void Gpt::project_parameters() {
  if (config_.norm != Norm::cbwc_projected) return;
  project(tokens_->weight(), -1);
  project(positions_->weight(), -1);
  for (const auto& block : blocks_) {
    for (const Linear* writer : {&block->attention().projection(), &block->mlp().projection()}) {
      project(writer->weight(), 0);
      project(writer->bias(), 0);
    }
  }
}

}  // namespace cbwc
