// linear(x, w, b): y = x w^T + b with x (..., in), w (out, in), b (out) or undefined.
#pragma once
#include "autograd/tape.h"

namespace cbwc {

class LinearOp : public Op {
 public:
  LinearOp(Tensor x, Tensor w) : x_(std::move(x)), w_(std::move(w)) {}
  const char* name() const override { return "linear"; }
  void backward(Gradients& g) override;
  void release() override { x_ = w_ = {}; }

 private:
  Tensor x_, w_;
};

Variable linear(const Variable& x, const Variable& w, const Variable& b);

}  // namespace cbwc
