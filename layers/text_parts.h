// What the text models share: sizes and arms, positions, checks of their input, the stored
// projection of cbwc_projected, a small padded example.
#pragma once
#include "layers/embedding.h"
#include "layers/model.h"
#include "layers/transformer_block.h"

namespace cbwc {

struct TextConfig {
  int64_t vocab = 0, layers = 0, dim = 0, heads = 0;
  int64_t context = 0;  // positions: the longest text
  int64_t hidden = 0;   // of the MLP; 0: 4 x dim
  Norm norm = Norm::layernorm;
  double norm_eps = 1e-5;
  bool norm_bias = true;
  double dropout = 0;            // of branches and embedding sums, placed as below
  double attention_dropout = 0;  // of the attention probabilities
  DropoutPlacement dropout_placement = DropoutPlacement::element;
  DType dtype = DType::f32;
  double init_std = 0.02;
};
void check_config(const TextConfig& config);  // Error naming what does not fit together
BranchOptions branch_options(const TextConfig& config);
BlockOptions block_options(const TextConfig& config, Placement placement, Activation activation,
                           bool causal);
Init text_init(const TextConfig& config, uint64_t seed);
// Of projections onto a residual stream that `branches` branches write to: deviation divided by
// the root of their number.
Init writer_init(const TextConfig& config, uint64_t seed, int64_t branches);
std::unique_ptr<NormLayer> text_norm(Module* parent, const std::string& name,
                                     const TextConfig& config);

// ids (B, T) of at most `context` tokens, mask (B, T) int32 or undefined.
void check_tokens(const Tensor& ids, const Tensor& mask, int64_t context, const char* what);
Tensor consecutive(int64_t count, int64_t first = 0);  // int32: first, first + 1, ...
// Rows b * T + t of x (B, T, C), in the order of `rows` (N) -> (N, C); x itself without rows.
Variable select_rows(const Variable& x, const Tensor& rows);

// Centre what a writer stores, in place (project_writer is in layers/branch.h).
void project_table(const Embedding& embedding);
void project_block(const TransformerBlock& block);

// Random ids and a mask; every sample but one in three has padding on its right.
ModelInput example_text(int64_t batch, int64_t tokens, int64_t vocab, uint64_t seed);

}  // namespace cbwc
