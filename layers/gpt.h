// GPT: token and position embeddings, Transformer blocks, final norm (pre-norm only) and a head
// that may share the token table. GPT-2's initialisation: deviation init_std for every table and
// weight (positions too, as Hugging Face's), divided by sqrt(2 layers) for the projections onto the
// residual stream; biases zero.
#pragma once
#include "layers/decoder.h"

namespace cbwc {

struct GptConfig : TextConfig {
  Placement placement = Placement::pre;
  QkNorm qk_norm = QkNorm::none;
  bool tied_head = true;
  Gelu gelu = Gelu::tanh;
  FoldedTie folded_tie = FoldedTie::none;
};

class Gpt : public Decoder {
 public:
  Gpt(const GptConfig& config, uint64_t seed);  // Error for sizes that do not fit together
  const GptConfig& config() const { return config_; }

  using Decoder::logits;
  Variable logits(const Tensor& ids, const Context& context) {
    return logits(ModelInput{ids}, context);
  }
  using Model::loss;
  CrossEntropyResult loss(const Tensor& ids, const Tensor& targets, const Context& context,
                          const CrossEntropyOptions& options = {}) {
    return loss(ModelInput{ids}, ModelTargets{targets}, context, options);
  }

  // Where this structure breaks LN = CBWC + RMSNorm, whatever the arm; empty when it is exact. Each
  // producer is listed with the first norm that reads it.
  std::vector<InexactPair> inexact_pairs() const;

 private:
  const GptConfig config_;
};

}  // namespace cbwc
