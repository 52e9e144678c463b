// softmax(x) over the last axis. A row that is all -inf gives zeros (cases.md P49).
#pragma once
#include "autograd/tape.h"

namespace cbwc {

class SoftmaxOp : public Op {
 public:
  explicit SoftmaxOp(Tensor y) : y_(std::move(y)) {}
  const char* name() const override { return "softmax"; }
  void backward(Gradients& g) override;
  void release() override { y_ = {}; }

 private:
  Tensor y_;
};

Variable softmax(const Variable& x);

}  // namespace cbwc
