#include "layers/encoder_decoder.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/ops/center.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/gather_rows.h"
#include "autograd/ops/shape.h"
#include "layers/checkpoint_block.h"

namespace cbwc {
namespace {

constexpr int64_t kExampleTokens = 6;

EncoderDecoderConfig checked(EncoderDecoderConfig c) {
  check_config(c);
  CBWC_CHECK(c.target_vocab >= 0 && c.decoder_layers >= 0,
             "model: target_vocab and decoder_layers must not be negative, got ", c.target_vocab,
             " and ", c.decoder_layers);
  if (c.decoder_layers == 0) c.decoder_layers = c.layers;
  return c;
}

// Rows of the first axis of an int32 mask.
Tensor picked(const Tensor& mask, const std::vector<int64_t>& rows) {
  const std::vector<int32_t> from = mask.contiguous().to_vector<int32_t>();
  const int64_t width = mask.size(1);
  std::vector<int32_t> out;
  for (const int64_t r : rows)
    out.insert(out.end(), from.begin() + r * width, from.begin() + (r + 1) * width);
  return Tensor::from(out, {static_cast<int64_t>(rows.size()), width});
}

}  // namespace

EncoderDecoder::EncoderDecoder(const EncoderDecoderConfig& config, uint64_t seed)
    : Model(nullptr, ""), config_(checked(config)) {
  const EncoderDecoderConfig& c = config_;
  const Init init = text_init(c, seed);
  if (c.target_vocab == 0) {
    shared_tokens_ = make_embedding(centres_weights(branch_options(c)), this, "tokens", c.vocab,
                                    c.dim, Role::embedding, init);
  }
  source_ = make_side("encoder", c.vocab, shared_tokens_.get(), init);
  BlockOptions block = block_options(c, c.placement, c.activation, false);
  const Init encoder_init = writer_init(c, seed, 2 * c.layers);
  for (int64_t i = 0; i < c.layers; ++i) {
    encoder_.push_back(std::make_unique<TransformerBlock>(this, fmt::format("encoder.{}", i), block,
                                                          init, encoder_init));
  }
  if (c.placement == Placement::pre) encoder_norm_ = text_norm(this, "encoder.norm", c);
  target_ = make_side("decoder", c.target_vocab, shared_tokens_.get(), init);
  block.attention.causal = true;
  const Init decoder_init = writer_init(c, seed, 3 * c.decoder_layers);
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    decoder_.push_back(std::make_unique<CrossBlock>(this, fmt::format("decoder.{}", i), block, init,
                                                    decoder_init));
  }
  if (c.placement == Placement::pre) decoder_norm_ = text_norm(this, "decoder.norm", c);
  if (c.tied_head) {
    tied_head_ = std::make_unique<TiedLinear>(this, "head", target_.tokens->weight());
  } else {
    head_ = std::make_unique<Linear>(this, "head", c.dim, target_vocab(), false, init);
  }
  project_parameters();
}

EncoderDecoder::Side EncoderDecoder::make_side(const std::string& name, int64_t vocab,
                                               Embedding* shared, const Init& init) {
  const BranchOptions branch = branch_options(config_);
  const bool centered = centres_weights(branch);
  Side side;
  side.tokens = shared;
  if (shared == nullptr) {
    side.own_tokens =
        make_embedding(centered, this, name + ".tokens", vocab, config_.dim, Role::embedding, init);
    side.tokens = side.own_tokens.get();
  }
  if (config_.sinusoidal) {
    side.positions = std::make_unique<SinusoidalPositions>(
        this, name + ".positions", config_.context, config_.dim, config_.dtype);
    if (centered) side.positions->centre_output();
  } else {
    side.positions = make_embedding(centered, this, name + ".positions", config_.context,
                                    config_.dim, Role::position, init);
  }
  side.dropout = make_sum_dropout(this, name + ".dropout", branch);
  return side;
}

int64_t EncoderDecoder::target_vocab() const {
  return config_.target_vocab > 0 ? config_.target_vocab : config_.vocab;
}

std::string EncoderDecoder::describe() const {
  return fmt::format(
      "encoder-decoder, {} + {} layers, dim {}, {} heads, context {}, vocabulary {}, {} ({}-norm)",
      config_.layers, config_.decoder_layers, config_.dim, config_.heads, config_.context,
      config_.vocab, norm_name(config_.norm), placement_name(config_.placement));
}

Variable EncoderDecoder::embed(Side& side, const Tensor& ids, const Context& context,
                               int64_t position) {
  Variable words = side.tokens->forward(ids);
  if (config_.scale_embedding) words = scale(words, std::sqrt(static_cast<double>(config_.dim)));
  const Variable where = side.positions->forward(consecutive(ids.size(1), position));
  const Variable x = side.dropout->forward(add(words, where), context);
  return centres_output(branch_options(config_)) ? center(x, -1) : x;
}

EncoderDecoder::Memory EncoderDecoder::encode(const Tensor& ids, const Tensor& mask,
                                              const Context& context) {
  check_tokens(ids, mask, config_.context, "ids");
  Variable x = embed(source_, ids, context);
  for (auto& block : encoder_) {
    x = run_block({x}, context, [b = block.get(), mask](const auto& in, const Context& c) {
      return b->forward(in[0], c, mask);
    });
  }
  if (encoder_norm_ != nullptr) x = encoder_norm_->forward(x, context);
  Memory memory{{}, mask};
  for (auto& block : decoder_) memory.keys.push_back(block->keys(x));
  return memory;
}

Variable EncoderDecoder::decode(const Tensor& ids, const Memory& memory, const Context& context,
                                KvCache* cache) {
  check_tokens(ids, {}, config_.context, "decoder_ids");
  const int64_t before = cache == nullptr ? 0 : cache->length;
  if (cache != nullptr) cache->check_room(ids.size(1));
  Variable x = embed(target_, ids, context, before);
  for (size_t i = 0; i < decoder_.size(); ++i) {
    const KvSlot slot = {cache == nullptr ? nullptr : &cache->layers[i], before};
    x = run_block(
        {x, memory.keys[i]}, context,
        [b = decoder_[i].get(), mask = memory.mask, slot](const auto& in, const Context& c) {
          return b->forward(in[0], in[1], mask, c, slot);
        });
  }
  if (cache != nullptr) cache->length += ids.size(1);
  return decoder_norm_ != nullptr ? decoder_norm_->forward(x, context) : x;
}

Variable EncoderDecoder::head(const Variable& x) {
  return head_ != nullptr ? head_->forward(x) : tied_head_->forward(x);
}

Variable EncoderDecoder::logits(const ModelInput& input, const Context& context) {
  check_tokens(input.decoder_ids, {}, config_.context, "decoder_ids");
  const Memory memory = encode(input.ids, input.mask, context);
  CBWC_CHECK(input.decoder_ids.size(0) == input.ids.size(0), "model: ", input.ids.size(0),
             " rows of ids, ", input.decoder_ids.size(0), " of decoder_ids");
  return head(select_rows(decode(input.decoder_ids, memory, context), input.rows));
}

EncoderDecoder::Memory EncoderDecoder::of_sentences(const Memory& all,
                                                    const std::vector<int64_t>& sentences) const {
  const int64_t n = all.keys[0].size(0);
  if (static_cast<int64_t>(sentences.size()) == n) return all;
  const std::vector<int32_t> rows(sentences.begin(), sentences.end());
  const Tensor ids = Tensor::from(rows, {static_cast<int64_t>(rows.size())});
  Memory out;
  if (all.mask.defined()) out.mask = picked(all.mask, sentences);
  for (const Variable& k : all.keys) {
    const Variable flat = gather_rows(reshape(k, {n, -1}), ids);
    out.keys.push_back(reshape(flat, {ids.numel(), k.size(1), k.size(2)}));
  }
  return out;
}

std::vector<std::vector<int32_t>> EncoderDecoder::translate(const Tensor& ids, const Tensor& mask,
                                                            BeamOptions options) {
  const TapeScope off(nullptr);
  if (options.max_length == 0 || options.max_length > config_.context)
    options.max_length = config_.context;
  const Memory all = encode(ids, mask, {});
  Memory some = all;
  std::vector<int64_t> chosen;
  BeamCache past(std::ssize(decoder_), config_.heads, options.max_length,
                 config_.dim / config_.heads, dtype());
  const auto next = [&](const Tensor& prefixes, const std::vector<int64_t>& sentences) {
    if (sentences != chosen) some = of_sentences(all, sentences);
    chosen = sentences;
    const int64_t length = prefixes.size(1);
    const Tensor newest = prefixes.slice(1, length - 1, length).contiguous();
    const Variable x = decode(newest, some, {}, &past.follow(prefixes, sentences));
    return reshape(head(x), {prefixes.size(0), target_vocab()}).value();
  };
  std::vector<std::vector<int32_t>> out;
  for (const auto& best : beam_search(ids.size(0), options, next)) out.push_back(best[0].tokens);
  return out;
}

ModelInput EncoderDecoder::example(int64_t batch, uint64_t seed) const {
  const int64_t tokens = std::min(config_.context, kExampleTokens);
  ModelInput out = example_text(batch, tokens, config_.vocab, seed);
  out.decoder_ids =
      example_text(batch, std::max<int64_t>(1, tokens - 1), target_vocab(), seed + 1).ids;
  return out;
}

void EncoderDecoder::project_parameters() {
  if (config_.norm != Norm::cbwc_projected) return;
  for (const Side* side : {&source_, &target_}) {
    project_table(*side->tokens);
    project_table(*side->positions);
  }
  for (const auto& block : encoder_) project_block(*block);
  for (const auto& block : decoder_) block->project();
}

}  // namespace cbwc
