// matmul(a, b): op(a) op(b) over the last two axes; the leading axes are a batch, equal in a and b.
#pragma once
#include "autograd/tape.h"

namespace cbwc {

class MatmulOp : public Op {
 public:
  MatmulOp(Tensor a, Tensor b, bool transpose_a, bool transpose_b)
      : transpose_a(transpose_a), transpose_b(transpose_b), a_(std::move(a)), b_(std::move(b)) {}
  const char* name() const override { return "matmul"; }
  void backward(Gradients& g) override;
  void release() override { a_ = b_ = {}; }

  const bool transpose_a, transpose_b;

 private:
  Tensor a_, b_;
};

Variable matmul(const Variable& a, const Variable& b, bool transpose_a = false,
                bool transpose_b = false);

}  // namespace cbwc
