// One decoder-only language model. GPT (layers/gpt.h), OPT, Phi and BLOOM are settings of it:
//           positions              blocks    MLP        beside
//   GPT     learned                pre       GELU       tied head; post-norm on request
//   OPT     learned, from row 2    pre       ReLU       tied head
//   Phi     rotary                 parallel  GELU tanh  untied head with a bias
//   BLOOM   ALiBi                  pre       GELU tanh  norm after the embedding, tied head
//
// What Note [Arms] makes exact without dropout (method.md 6; the detector finds the same): OPT
// 2 L + 1 of 2 L + 1 norms, Phi L + 1 of L + 1. BLOOM: the embedding's norm alone, for its affine
// output starts the stream that the 2 L + 1 others read; `auxiliary_centring`, one P after it,
// makes them exact too.
#pragma once
#include "layers/text_parts.h"
#include "layers/tied_linear.h"

namespace cbwc {

struct DecoderConfig : TextConfig {
  std::string kind = "decoder";  // for people
  Placement placement = Placement::pre;
  QkNorm qk_norm = QkNorm::none;
  Activation activation = Activation::gelu_tanh;
  bool learned_positions = true;
  int64_t first_position = 0;  // row of the first token's position; the table has as many rows more
  double rotary = 0;           // part of each head's channels that rotary positions turn
  bool alibi = false;
  // Between token rows and blocks; there is no dropout of the embedding sum then.
  bool embedding_norm = false;
  bool auxiliary_centring = false;   // in cbwc_rmsnorm: P after the embedding's norm
  bool residual_after_norm = false;  // BLOOM's variant: refused, for no norm in it could be exact
  bool tied_head = true, head_bias = false;
  FoldedTie folded_tie = FoldedTie::none;
};
DecoderConfig opt_config(const TextConfig& sizes);
DecoderConfig phi_config(const TextConfig& sizes, double rotary = 0.5);
DecoderConfig bloom_config(const TextConfig& sizes);

class Decoder : public Model {
 public:
  Decoder(const DecoderConfig& config, uint64_t seed);  // Error for what does not fit together
  std::string describe() const override;
  const DecoderConfig& config() const { return config_; }
  DType dtype() const override { return config_.dtype; }

  // Reads ids (B, T), mask (padding on the right) and rows. (B, T, vocab) or (N, vocab).
  Variable logits(const ModelInput& input, const Context& context) override;
  // Of the last position alone, which is all that generating text needs: (B, vocab).
  Variable last_logits(const Tensor& ids, const Context& context) override;
  Tensor next_logits(const Tensor& ids, KvCache& cache) override;
  // Of at most `context` tokens.
  KvCache make_cache(int64_t batch, int64_t capacity) const override;
  bool decodes() const override { return true; }
  ModelInput example(int64_t batch, uint64_t seed) const override;
  // A tied head reads the same, now centred, table, so this changes the function: another method,
  // not a way to compute CBWC. Does nothing in the other arms.
  void project_parameters() override;

 protected:
  const DecoderConfig config_;
  const BranchOptions branch_;
  std::unique_ptr<Embedding> tokens_, positions_;  // positions_ null without learned ones
  std::unique_ptr<NormLayer> embedding_norm_;      // null, or
  std::unique_ptr<Dropout> dropout_;               // this one is
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::unique_ptr<NormLayer> norm_;        // null for post-norm
  std::unique_ptr<Linear> head_;           // null when tied,
  std::unique_ptr<TiedLinear> tied_head_;  // else this one is

 private:
  void make_embedding_parts(const Init& init);
  Variable embed(const Tensor& ids, const Context& context, int64_t position = 0);
  // (B, T, C) after the last block
  Variable stream(const Tensor& ids, const Tensor& mask, const Context& context);
  Variable head(Variable x, const Context& context);              // final norm and projection
  Variable last_head(const Variable& x, const Context& context);  // of the last position
  void check_cache(const Tensor& ids, const KvCache& cache) const;
};

}  // namespace cbwc
