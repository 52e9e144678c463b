// gather_rows: rows of x (R, C) or (B, R, C) picked by ids (N) int32 -> (N, C) or (B, N, C), the
// same ids for every batch entry. Id -1 gives a row of zeros: padding. An id outside [-1, R) is an
// Error naming index and value.
#pragma once
#include "autograd/tape.h"

namespace cbwc {

class GatherRowsOp : public Op {
 public:
  GatherRowsOp(Tensor ids, int64_t batch, int64_t rows)
      : ids_(std::move(ids)), batch_(batch), rows_(rows) {}
  const char* name() const override { return "gather_rows"; }
  void backward(Gradients& g) override;
  void release() override { ids_ = {}; }

 private:
  Tensor ids_;
  int64_t batch_, rows_;
};

Variable gather_rows(const Variable& x, const Tensor& ids);

}  // namespace cbwc
