#include "layers/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops/center.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "layers/checkpoint_block.h"

namespace cbwc {
namespace {

constexpr int64_t kExampleTokens = 6;

DecoderConfig checked(const DecoderConfig& c) {
  check_config(c);
  CBWC_CHECK(!c.residual_after_norm,
             "model: a residual that starts after the norm (BLOOM's "
             "apply_residual_connection_post_layernorm) is not supported");
  CBWC_CHECK(c.first_position >= 0 && c.rotary >= 0 && c.rotary <= 1,
             "model: first_position must be at least 0 and rotary a part between 0 and 1, got ",
             c.first_position, " and ", c.rotary);
  CBWC_CHECK(c.tied_head || c.folded_tie == FoldedTie::none,
             "model: folded_tie is for a tied head, and tied_head is false");
  CBWC_CHECK(!c.tied_head || !c.head_bias, "model: a tied head has no bias");
  return c;
}

}  // namespace

DecoderConfig opt_config(const TextConfig& sizes) {
  DecoderConfig c{sizes};
  c.kind = "OPT";
  c.activation = Activation::relu;
  c.first_position = 2;
  return c;
}

DecoderConfig phi_config(const TextConfig& sizes, double rotary) {
  DecoderConfig c{sizes};
  c.kind = "Phi";
  c.placement = Placement::parallel;
  c.learned_positions = false;
  c.rotary = rotary;
  c.tied_head = false;
  c.head_bias = true;
  return c;
}

DecoderConfig bloom_config(const TextConfig& sizes) {
  DecoderConfig c{sizes};
  c.kind = "BLOOM";
  c.learned_positions = false;
  c.alibi = true;
  c.embedding_norm = true;
  return c;
}

Decoder::Decoder(const DecoderConfig& config, uint64_t seed)
    : Model(nullptr, ""), config_(checked(config)), branch_(branch_options(config)) {
  const DecoderConfig& c = config_;
  const Init init = text_init(c, seed), output_init = writer_init(c, seed, 2 * c.layers);
  make_embedding_parts(init);
  BlockOptions block = block_options(c, c.placement, c.activation, true);
  block.attention.qk_norm = c.qk_norm;
  block.attention.alibi = c.alibi;
  block.attention.rotary = static_cast<int64_t>(c.rotary * static_cast<double>(c.dim / c.heads));
  for (int64_t i = 0; i < c.layers; ++i) {
    blocks_.push_back(std::make_unique<TransformerBlock>(this, fmt::format("blocks.{}", i), block,
                                                         init, output_init));
  }
  if (c.placement != Placement::post) norm_ = text_norm(this, "norm", c);
  if (c.tied_head) {
    tied_head_ = std::make_unique<TiedLinear>(this, "head", tokens_->weight());
    if (c.folded_tie == FoldedTie::rank_one)
      tied_head_->correct_rank_one(Tensor::zeros({c.vocab}, c.dtype));
  } else {
    head_ = std::make_unique<Linear>(this, "head", c.dim, c.vocab, c.head_bias, init);
  }
  Decoder::project_parameters();
}

void Decoder::make_embedding_parts(const Init& init) {
  const DecoderConfig& c = config_;
  // Before a norm of its own there is no dropout: centring the rows is exact wherever it is placed.
  const bool centered = c.embedding_norm ? centres_writers(c.norm) : centres_weights(branch_);
  tokens_ = make_embedding(centered || c.folded_tie == FoldedTie::runtime, this, "wte", c.vocab,
                           c.dim, Role::embedding, init);
  if (c.learned_positions) {
    positions_ = make_embedding(centered, this, "wpe", c.context + c.first_position, c.dim,
                                Role::position, init);
  }
  if (!c.embedding_norm) {
    dropout_ = make_sum_dropout(this, "dropout", branch_);
    return;
  }
  embedding_norm_ = text_norm(this, "embedding_norm", c);
  if (c.auxiliary_centring && centres_writers(c.norm)) embedding_norm_->centre_output();
}

std::string Decoder::describe() const {
  return fmt::format(
      "{}, {} layers, dim {}, {} heads, context {}, vocabulary {}, {} ({}-norm), {} head",
      config_.kind, config_.layers, config_.dim, config_.heads, config_.context, config_.vocab,
      norm_name(config_.norm), placement_name(config_.placement),
      config_.tied_head ? "tied" : "untied");
}

Variable Decoder::embed(const Tensor& ids, const Context& context, int64_t position) {
  Variable x = tokens_->forward(ids);
  if (positions_ != nullptr)
    x = add(x, positions_->forward(consecutive(ids.size(1), config_.first_position + position)));
  if (embedding_norm_ != nullptr) return embedding_norm_->forward(x, context);
  x = dropout_->forward(x, context);
  return centres_output(branch_) ? center(x, -1) : x;
}

Variable Decoder::stream(const Tensor& ids, const Tensor& mask, const Context& context) {
  check_tokens(ids, mask, config_.context, "ids");
  Variable x = embed(ids, context);
  for (auto& block : blocks_) {
    x = run_block({x}, context, [b = block.get(), mask](const auto& in, const Context& c) {
      return b->forward(in[0], c, mask);
    });
  }
  return x;
}

Variable Decoder::head(Variable x, const Context& context) {
  if (norm_ != nullptr) x = norm_->forward(x, context);
  return head_ != nullptr ? head_->forward(x) : tied_head_->forward(x);
}

Variable Decoder::logits(const ModelInput& input, const Context& context) {
  return head(select_rows(stream(input.ids, input.mask, context), input.rows), context);
}

Variable Decoder::last_head(const Variable& x, const Context& context) {
  const Variable last = slice(x, 1, x.size(1) - 1, x.size(1));
  return reshape(head(last, context), {x.size(0), config_.vocab});
}

Variable Decoder::last_logits(const Tensor& ids, const Context& context) {
  return last_head(stream(ids, {}, context), context);
}

KvCache Decoder::make_cache(int64_t batch, int64_t capacity) const {
  CBWC_CHECK(batch > 0 && capacity > 0, "KV cache: batch and capacity must be positive, got ",
             batch, " and ", capacity);
  CBWC_CHECK(capacity <= config_.context, "KV cache: a capacity of ", capacity,
             " tokens is more than the ", config_.context, " positions (model.context)");
  KvCache cache(batch, capacity);
  const Shape shape = {batch, config_.heads, capacity, config_.dim / config_.heads};
  for (int64_t i = 0; i < config_.layers; ++i)
    cache.layers.push_back({Tensor::empty(shape, dtype()), Tensor::empty(shape, dtype())});
  return cache;
}

void Decoder::check_cache(const Tensor& ids, const KvCache& cache) const {
  check_tokens(ids, {}, config_.context, "ids");
  CBWC_CHECK(ids.size(0) == cache.batch, "KV cache: made for ", cache.batch, " rows, got ",
             ids.size(0));
  const Shape shape = {cache.batch, config_.heads, cache.capacity, config_.dim / config_.heads};
  CBWC_CHECK(cache.capacity <= config_.context && std::ssize(cache.layers) == config_.layers &&
                 cache.layers[0].keys.shape() == shape && cache.layers[0].keys.dtype() == dtype(),
             "KV cache: it was made for another model than this ", describe());
  cache.check_room(ids.size(1));
}

Tensor Decoder::next_logits(const Tensor& ids, KvCache& cache) {
  check_cache(ids, cache);
  const TapeScope no_tape(nullptr);
  const Context context;
  Variable x = embed(ids, context, cache.length);
  for (size_t i = 0; i < blocks_.size(); ++i)
    x = blocks_[i]->forward(x, context, {}, {&cache.layers[i], cache.length});
  const Tensor logits = last_head(x, context).value();
  cache.length += ids.size(1);
  return logits;
}

ModelInput Decoder::example(int64_t batch, uint64_t seed) const {
  return example_text(batch, std::min(config_.context, kExampleTokens), config_.vocab, seed);
}

void Decoder::project_parameters() {
  if (config_.norm != Norm::cbwc_projected) return;
  project_table(*tokens_);
  if (positions_ != nullptr) project_table(*positions_);
  for (const auto& block : blocks_) project_block(*block);
}

}  // namespace cbwc
