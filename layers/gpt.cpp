#include "layers/gpt.h"

#include <fmt/format.h>

namespace cbwc {
namespace {

DecoderConfig decoder_config(const GptConfig& g) {
  DecoderConfig c;
  c.kind = "GPT";
  static_cast<TextConfig&>(c) = g;
  c.placement = g.placement;
  c.qk_norm = g.qk_norm;
  c.activation = activation_of(g.gelu);
  c.tied_head = g.tied_head;
  c.folded_tie = g.folded_tie;
  return c;
}

}  // namespace

Gpt::Gpt(const GptConfig& config, uint64_t seed)
    : Decoder(decoder_config(config), seed), config_(config) {}

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

}  // namespace cbwc
