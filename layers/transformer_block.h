// A Transformer block.  pre: x + attn(norm1(x)), then x + mlp(norm2(x)).
//                       post: norm1(x + attn(x)), then norm2(x + mlp(x)).
//                       parallel: x + attn(norm1(x)) + mlp(norm1(x)); no norm2.
#pragma once
#include "layers/attention.h"
#include "layers/mlp.h"

namespace cbwc {

enum class Placement { pre, post, parallel };
Placement parse_placement(const std::string& name);  // pre or post
const char* placement_name(Placement placement);

struct BlockOptions {
  SelfAttentionOptions attention;
  BranchOptions branch;
  Placement placement = Placement::pre;
  Activation activation = Activation::gelu_tanh;
  int64_t hidden = 0;  // of the MLP; 0: 4 x dim
};
inline int64_t mlp_width(const BlockOptions& o) {
  return o.hidden > 0 ? o.hidden : 4 * o.attention.dim;
}
// A norm of a block, as its arm says.
std::unique_ptr<NormLayer> block_norm(Module* block, const char* name, const BlockOptions& options,
                                      DType dtype);

class TransformerBlock : public Module {
 public:
  TransformerBlock(Module* parent, const std::string& name, const BlockOptions& options,
                   const Init& init, const Init& output_init);
  std::string describe() const override;
  // mask: (B, T) int32, 0 = a token that nobody attends to; undefined: none. slot: as the attention
  // reads it.
  Variable forward(const Variable& x, const Context& context, const Tensor& mask = {},
                   const KvSlot& slot = {});
  const NormLayer& norm1() const { return *norm1_; }
  const NormLayer& norm2() const { return *norm2_; }  // not there when parallel
  const SelfAttention& attention() const { return attention_; }
  const Mlp& mlp() const { return mlp_; }

 private:
  const Placement placement_;
  std::unique_ptr<NormLayer> norm1_;
  SelfAttention attention_;
  std::unique_ptr<NormLayer> norm2_;
  Mlp mlp_;
};

}  // namespace cbwc
