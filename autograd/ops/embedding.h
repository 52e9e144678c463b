// Embedding: rows of table (V, C) picked by ids (int32 or int64, any shape) -> ids' shape + (C). An
// id outside [0, V) is an Error naming index and value.
#pragma once
#include "autograd/tape.h"

namespace cbwc {

class EmbeddingOp : public Op {
 public:
  EmbeddingOp(Tensor ids, int64_t vocab, bool centered)
      : ids_(std::move(ids)), vocab_(vocab), centered_(centered) {}
  const char* name() const override { return centered_ ? "centered_embedding" : "embedding"; }
  void backward(Gradients& g) override;
  void release() override { ids_ = {}; }
  int64_t vocab() const { return vocab_; }
  bool centered() const { return centered_; }

 private:
  Tensor ids_;
  int64_t vocab_;
  bool centered_;
};

Variable embedding(const Variable& table, const Tensor& ids);

// Each gathered row minus its mean; the same as center(embedding(table, ids), -1) in one pass. Only
// the gathered rows are centred (method.md 3).
Variable centered_embedding(const Variable& table, const Tensor& ids);

}  // namespace cbwc
