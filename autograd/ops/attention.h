// Fused attention, blockwise: memory linear in T (core/kernels/attention.h).
#pragma once
#include "autograd/tape.h"
#include "core/kernels/attention.h"
#include "core/rng.h"

namespace cbwc {

struct AttentionOptions {
  bool causal = false;  // with Tq < Tk the queries are the last Tq positions (KV cache)
  Tensor key_mask;      // (B, Tk) int32, 1 = keep; undefined: all
  double scale = 0;     // 0: 1/sqrt(D)
  double dropout = 0;   // of the probabilities, in [0, 1); needs rng
  Rng* rng = nullptr;
  double* track_max = nullptr;  // receives the largest logit (-inf when no key is seen)
  Variable bias = {};           // (H, Tq, Tk), added to the scaled scores; with a gradient
  // (W, T) int32, T = Tq = Tk, for a batch of B = n W windows: in batch row b two tokens see each
  // other only if groups[b % W] gives them one number (shifted windows).
  Tensor groups = {};
  Tensor alibi_slopes = {};  // (H): adds slope_h (j - (i + Tk - Tq)) for query i and key j
};

class AttentionOp : public Op {
 public:
  const char* name() const override { return packed_ ? "attention_qkv" : "attention"; }
  void backward(Gradients& g) override;
  void release() override {
    q_ = k_ = v_ = out_ = lse_ = key_mask_ = bias_ = groups_ = alibi_slopes_ = {};
  }
  const AttentionShape& attributes() const { return shape_; }  // its pointers are null

 private:
  friend Variable attention(const Variable&, const Variable&, const Variable&,
                            const AttentionOptions&);
  friend Variable attention_qkv(const Variable&, int64_t, const AttentionOptions&);
  void forward(const AttentionOptions& options);
  AttentionShape with_pointers() const;
  template <class T>
  void backward_typed(const Tensor& dout, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                      bool accumulate, const Gradients::Target& dbias);
  AttentionShape shape_{};
  bool packed_ = false;
  Tensor q_, k_, v_;  // (B, H, T, D) views
  Tensor out_;        // (B, Tq, H*D)
  Tensor lse_;        // (B, H, Tq)
  Tensor key_mask_, bias_, groups_;
  Tensor alibi_slopes_;  // (H) float64
};

// q (B, H, Tq, D), k and v (B, H, Tk, D); strided views are read in place when D is contiguous.
// Returns (B, Tq, H*D), contiguous.
Variable attention(const Variable& q, const Variable& k, const Variable& v,
                   const AttentionOptions& options = {});

// Self-attention of a packed qkv (B, T, 3C) = [q | k | v], each (heads, C/heads). Returns (B, T,
// C).
Variable attention_qkv(const Variable& qkv, int64_t heads, const AttentionOptions& options = {});

}  // namespace cbwc
