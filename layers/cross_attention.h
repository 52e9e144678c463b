// Multi-head attention of one stream's tokens (queries) over another's (keys and values), and the
// decoder block that has it between its self-attention and its MLP.
#pragma once
#include "layers/transformer_block.h"

namespace cbwc {

class CrossAttention : public Module {
 public:
  // Of `options` it reads dim, heads and dropout.
  CrossAttention(Module* parent, const std::string& name, const SelfAttentionOptions& options,
                 const Init& init, const Init& output_init, const BranchOptions& branch);
  std::string describe() const override;
  Variable keys(const Variable& memory);  // (B, T, C) -> (B, T, 2 C): [keys | values]
  // x (n B, S, C): n rows beside each other read the same row of `keys`; mask (B, T) int32, 0 = a
  // key that is not seen, or undefined.
  Variable forward(const Variable& x, const Variable& keys, const Tensor& mask,
                   const Context& context);
  const Linear& projection() const { return out_.projection(); }

 private:
  Variable split(const Variable& x, int part, int64_t batch) const;
  const SelfAttentionOptions options_;
  Linear q_, kv_;
  BranchOutput out_;
};

// pre: x + attn(norm1(x)), + cross(norm2(.)), + mlp(norm3(.)).   post: a norm after each sum.
class CrossBlock : public Module {
 public:
  CrossBlock(Module* parent, const std::string& name, const BlockOptions& options, const Init& init,
             const Init& output_init);
  std::string describe() const override;
  Variable keys(const Variable& memory);
  // slot: as the self-attention reads it.
  Variable forward(const Variable& x, const Variable& keys, const Tensor& mask,
                   const Context& context, const KvSlot& slot = {});
  void project();  // centre what the writers store (text_parts.h)

 private:
  const Placement placement_;
  std::unique_ptr<NormLayer> norm1_;
  SelfAttention attention_;
  std::unique_ptr<NormLayer> norm2_;
  CrossAttention cross_;
  std::unique_ptr<NormLayer> norm3_;
  Mlp mlp_;
};

}  // namespace cbwc
