// Multi-head self-attention with a fused qkv as GPT-2's, optional norms of q and k per head (over
// the head's width, gains shared by the heads; not touched by the arm), rotary positions (after the
// norms) or ALiBi.
#pragma once
#include <functional>

#include "autograd/ops/attention.h"
#include "layers/branch.h"
#include "layers/kv_cache.h"

namespace cbwc {

enum class QkNorm { none, rmsnorm, layernorm };
QkNorm parse_qk_norm(const std::string& name);
const char* qk_norm_name(QkNorm norm);

struct SelfAttentionOptions {
  int64_t dim = 0, heads = 1;  // dim must be divisible by heads
  QkNorm qk_norm = QkNorm::none;
  double norm_eps = 1e-5;
  bool norm_bias = true;
  double dropout = 0;  // of the attention probabilities
  bool causal = true;  // a token sees itself and those before it
  int64_t rotary = 0;  // channels of each head that turn (autograd/ops/rotary.h), even; 0: none
  bool alibi = false;  // scores fall with the distance, each head by its slope
};

// ALiBi's slopes: 2^(-8 h / n) for h = 1 ... n heads, n a power of two; for other numbers those of
// the power below, then every second one of the power above.
std::vector<double> alibi_slopes(int64_t heads);

// Calls `attend` with options to which the stream of dropout (of the probabilities, in training) is
// added, and puts the largest logit into the context's statistics under the module's name.
Variable run_attention(const Module& module, double dropout, const Context& context,
                       AttentionOptions options,
                       const std::function<Variable(const AttentionOptions&)>& attend);

class SelfAttention : public Module {
 public:
  SelfAttention(Module* parent, const std::string& name, const SelfAttentionOptions& options,
                const Init& init, const Init& output_init, const BranchOptions& branch);
  std::string describe() const override;
  // (B, T, C) -> (B, T, C). mask: (B, T) int32, 0 = a token that nobody sees; undefined: none.
  // With a cache the T tokens come after those it holds, which they see too; their keys and values
  // join it.
  Variable forward(const Variable& x, const Context& context, const Tensor& mask = {},
                   const KvSlot& slot = {});
  const Linear& projection() const { return out_.projection(); }

 private:
  Variable attend(const Variable& qkv, const Context& context, const Tensor& mask,
                  const KvSlot& slot);
  const SelfAttentionOptions options_;
  Tensor slopes_;  // undefined without ALiBi
  Linear qkv_;
  std::unique_ptr<NormLayer> q_norm_, k_norm_;  // null without QK-norm
  BranchOutput out_;
};

}  // namespace cbwc
