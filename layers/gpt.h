// GPT: token and position embeddings, Transformer blocks, final norm (pre-norm only) and a head
// that may share the token table. GPT-2's initialisation: deviation init_std for every table and
// weight (positions too, as Hugging Face's), divided by sqrt(2 layers) for the projections onto the
// residual stream; biases zero.
#pragma once
#include "layers/decoder.h"

namespace cbwc {

struct GptConfig {
  int64_t vocab = 0, layers = 0, dim = 0, heads = 0, context = 0;
  Norm norm = Norm::layernorm;
  double norm_eps = 1e-5;
  bool norm_bias = true;
  Placement placement = Placement::pre;
  QkNorm qk_norm = QkNorm::none;
  bool tied_head = true;
  double dropout = 0;            // of branches and the embedding sum, placed as below
  double attention_dropout = 0;  // of the attention probabilities
  DropoutPlacement dropout_placement = DropoutPlacement::element;
  Gelu gelu = Gelu::tanh;
  DType dtype = DType::f32;
  double init_std = 0.02;
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
