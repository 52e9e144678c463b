// GPT: token and position embeddings, Transformer blocks, final norm (pre-norm only) and a head
// that may share the token table. GPT-2's initialisation: deviation init_std for every table and
// weight (positions too, as Hugging Face's), divided by sqrt(2 layers) for the projections onto the
// residual stream; biases zero.
#pragma once
#include "layers/embedding.h"
#include "layers/model.h"
#include "layers/tied_linear.h"
#include "layers/transformer_block.h"

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

class Gpt : public Model {
 public:
  Gpt(const GptConfig& config, uint64_t seed);  // Error for sizes that do not fit together
  std::string describe() const override;
  const GptConfig& config() const { return config_; }

  // ids (B, T) int32 or int64, T at most the context -> (B, T, vocab). Nothing else is read: what
  // is right of a token does not reach it, so padding at the end needs no mask.
  Variable logits(const ModelInput& input, const Context& context) override;
  Variable logits(const Tensor& ids, const Context& context) {
    return logits(ModelInput{ids}, context);
  }
  // Of the last position alone, which is all that generating text needs: (B, vocab).
  Variable last_logits(const Tensor& ids, const Context& context);
  using Model::loss;
  CrossEntropyResult loss(const Tensor& ids, const Tensor& targets, const Context& context,
                          const CrossEntropyOptions& options = {}) {
    return loss(ModelInput{ids}, ModelTargets{targets}, context, options);
  }
  DType dtype() const override { return config_.dtype; }
  ModelInput example(int64_t batch, uint64_t seed) const override;

  // Where this structure breaks LN = CBWC + RMSNorm, whatever the arm; empty when it is exact. Each
  // producer is listed with the first norm that reads it.
  std::vector<InexactPair> inexact_pairs() const;

  // A tied head reads the same, now centred, table, so this changes the function: another
  // method, not a way to compute CBWC. Does nothing in the other arms.
  void project_parameters() override;

 private:
  Variable embed(const Tensor& ids, const Context& context);
  Variable stream(const Tensor& ids, const Context& context);  // (B, T, C) after the last block
  Variable head(Variable x, const Context& context);           // final norm and projection
  const GptConfig config_;
  const BranchOptions branch_;
  std::unique_ptr<Embedding> tokens_, positions_;
  std::unique_ptr<Dropout> dropout_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::unique_ptr<NormLayer> norm_;        // null for post-norm
  std::unique_ptr<Linear> head_;           // null when tied,
  std::unique_ptr<TiedLinear> tied_head_;  // else this one is
};

}  // namespace cbwc
