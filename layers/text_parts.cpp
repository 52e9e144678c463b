#include "layers/text_parts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/ops/gather_rows.h"
#include "autograd/ops/shape.h"

namespace cbwc {

void check_config(const TextConfig& c) {
  CBWC_CHECK(c.vocab > 0 && c.layers > 0 && c.dim > 0 && c.heads > 0 && c.context > 0,
             "model: vocab, layers, dim, heads and context must be positive, got ", c.vocab, ", ",
             c.layers, ", ", c.dim, ", ", c.heads, ", ", c.context);
  CBWC_CHECK(c.dim % c.heads == 0, "model: dim ", c.dim, " is not divisible by heads ", c.heads);
  CBWC_CHECK(c.hidden >= 0, "model: the MLP's hidden width must be positive, got ", c.hidden);
  CBWC_CHECK(c.norm_eps >= 0 && std::isfinite(c.norm_eps), "model: norm_eps must be at least 0");
  CBWC_CHECK(c.init_std >= 0 && std::isfinite(c.init_std), "model: init_std must be at least 0");
  CBWC_CHECK(c.dtype == DType::f32 || c.dtype == DType::f64,
             "model: the element type must be float32 or float64");
}

BranchOptions branch_options(const TextConfig& c) {
  return {c.norm, c.dropout_placement, c.dropout};
}

BlockOptions block_options(const TextConfig& c, Placement placement, Activation activation,
                           bool causal) {
  BlockOptions o;
  o.attention.dim = c.dim;
  o.attention.heads = c.heads;
  o.attention.norm_eps = c.norm_eps;
  o.attention.norm_bias = c.norm_bias;
  o.attention.dropout = c.attention_dropout;
  o.attention.causal = causal;
  o.branch = branch_options(c);
  o.placement = placement;
  o.activation = activation;
  o.hidden = c.hidden;
  return o;
}

Init text_init(const TextConfig& c, uint64_t seed) { return {seed, c.dtype, c.init_std}; }

Init writer_init(const TextConfig& c, uint64_t seed, int64_t branches) {
  return {seed, c.dtype, c.init_std / std::sqrt(static_cast<double>(branches))};
}

std::unique_ptr<NormLayer> text_norm(Module* parent, const std::string& name, const TextConfig& c) {
  return make_norm(parent, name, c.norm, c.dim, c.norm_eps, c.norm_bias, c.dtype);
}

void check_tokens(const Tensor& ids, const Tensor& mask, int64_t context, const char* what) {
  CBWC_CHECK(ids.defined(), "model: there are no ", what);
  CBWC_CHECK(ids.rank() == 2 && ids.numel() > 0, "model: ", what, " must have shape (B, T), got ",
             to_string(ids.shape()));
  CBWC_CHECK(ids.size(1) <= context, "model: ", ids.size(1), " tokens are more than the ", context,
             " positions (model.context)");
  CBWC_CHECK(!mask.defined() || (mask.shape() == ids.shape() && mask.dtype() == DType::i32),
             "model: the mask of ", what, " must be int32 of shape ", to_string(ids.shape()),
             ", got ", to_string(mask.shape()));
}

Tensor consecutive(int64_t count, int64_t first) {
  std::vector<int32_t> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), static_cast<int32_t>(first));
  return Tensor::from(out, {count});
}

Variable select_rows(const Variable& x, const Tensor& rows) {
  if (!rows.defined()) return x;
  CBWC_CHECK(rows.rank() == 1, "model: rows must have shape (N), got ", to_string(rows.shape()));
  return gather_rows(reshape(x, {-1, x.size(-1)}), rows);
}

void project_table(const Embedding& embedding) { project_rows(embedding.weight()); }

void project_block(const TransformerBlock& block) {
  project_writer(block.attention().projection());
  project_writer(block.mlp().projection());
}

ModelInput example_text(int64_t batch, int64_t tokens, int64_t vocab, uint64_t seed) {
  Rng rng(seed, "example");
  std::vector<int32_t> ids, mask;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = std::max<int64_t>(1, tokens - (b + 1) % 3);
    for (int64_t t = 0; t < tokens; ++t) {
      ids.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocab))));
      mask.push_back(t < length);
    }
  }
  ModelInput out;
  out.ids = Tensor::from(ids, {batch, tokens});
  out.mask = Tensor::from(mask, {batch, tokens});
  return out;
}

}  // namespace cbwc
