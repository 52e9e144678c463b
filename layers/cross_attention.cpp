#include "layers/cross_attention.h"

#include <fmt/format.h>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "layers/text_parts.h"

namespace cbwc {

CrossAttention::CrossAttention(Module* parent, const std::string& name,
                               const SelfAttentionOptions& options, const Init& init,
                               const Init& output_init, const BranchOptions& branch)
    : Module(parent, name),
      options_(options),
      q_(this, "q", options.dim, options.dim, true, init),
      kv_(this, "kv", options.dim, 2 * options.dim, true, init),
      out_(this, "out", options.dim, options.dim, output_init, branch) {}

std::string CrossAttention::describe() const {
  return fmt::format("cross attention {}, {} heads, dropout {}", options_.dim, options_.heads,
                     options_.dropout);
}

Variable CrossAttention::keys(const Variable& memory) {
  const ScopeGuard scope(name());
  return kv_.forward(memory);
}

// Channels [part C, (part + 1) C) as (batch, heads, tokens, width).
Variable CrossAttention::split(const Variable& x, int part, int64_t batch) const {
  const int64_t c = options_.dim;
  const Variable own = x.size(2) == c ? x : slice(x, 2, part * c, (part + 1) * c);
  return permute(reshape(own, {batch, -1, options_.heads, c / options_.heads}), {0, 2, 1, 3});
}

Variable CrossAttention::forward(const Variable& x, const Variable& keys, const Tensor& mask,
                                 const Context& context) {
  const ScopeGuard scope(name());
  const int64_t batch = keys.size(0);
  CBWC_CHECK(x.size(0) % batch == 0, path(), ": ", x.size(0), " rows for the keys of ", batch);
  // Queries do not see each other, so that rows with the same keys are one long row.
  const Variable q = split(q_.forward(x), 0, batch);
  const Variable k = split(keys, 0, batch), v = split(keys, 1, batch);
  AttentionOptions options;
  options.key_mask = mask;
  const Variable y =
      run_attention(*this, options_.dropout, context, options,
                    [&](const AttentionOptions& o) { return attention(q, k, v, o); });
  return out_.forward(reshape(y, x.shape()), context);
}

CrossBlock::CrossBlock(Module* parent, const std::string& name, const BlockOptions& options,
                       const Init& init, const Init& output_init)
    : Module(parent, name),
      placement_(options.placement),
      norm1_(block_norm(this, "norm1", options, init.dtype)),
      attention_(this, "attn", options.attention, init, output_init, options.branch),
      norm2_(block_norm(this, "norm2", options, init.dtype)),
      cross_(this, "cross", options.attention, init, output_init, options.branch),
      norm3_(block_norm(this, "norm3", options, init.dtype)),
      mlp_(this, "mlp", options.attention.dim, mlp_width(options), options.activation, init,
           output_init, options.branch) {}

std::string CrossBlock::describe() const {
  return fmt::format("block with cross attention, {}-norm", placement_name(placement_));
}

Variable CrossBlock::keys(const Variable& memory) {
  const ScopeGuard scope(name());
  return cross_.keys(memory);
}

Variable CrossBlock::forward(const Variable& x, const Variable& keys, const Tensor& mask,
                             const Context& context, const KvSlot& slot) {
  const ScopeGuard scope(name());
  if (placement_ == Placement::pre) {
    Variable h = add(x, attention_.forward(norm1_->forward(x, context), context, {}, slot));
    h = add(h, cross_.forward(norm2_->forward(h, context), keys, mask, context));
    return add(h, mlp_.forward(norm3_->forward(h, context), context));
  }
  Variable h = norm1_->forward(add(x, attention_.forward(x, context, {}, slot)), context);
  h = norm2_->forward(add(h, cross_.forward(h, keys, mask, context)), context);
  return norm3_->forward(add(h, mlp_.forward(h, context)), context);
}

void CrossBlock::project() {
  for (const Linear* writer : {&attention_.projection(), &cross_.projection(), &mlp_.projection()})
    project_writer(*writer);
}

}  // namespace cbwc
