// conv2d(x, w, b): 2-D cross-correlation of x (B, Cin, H, W) with w (Cout, Cin / groups, kh, kw),
// b (Cout) or undefined -> (B, Cout, H', W'), H' = (H + 2 padding - kh) / stride + 1.
#pragma once
#include "autograd/tape.h"
#include "core/kernels/conv2d.h"

namespace cbwc {

struct Conv2dOptions {
  int64_t stride = 1, padding = 0, groups = 1;
};

class Conv2dOp : public Op {
 public:
  Conv2dOp(const Conv2dSizes& sizes, Tensor x, Tensor w)
      : stride(sizes.stride),
        padding(sizes.padding),
        groups(sizes.groups),
        sizes_(sizes),
        x_(std::move(x)),
        w_(std::move(w)) {}
  const char* name() const override { return "conv2d"; }
  void backward(Gradients& g) override;
  void release() override { x_ = w_ = {}; }

  const int64_t stride, padding, groups;

 private:
  const Conv2dSizes sizes_;
  Tensor x_, w_;
};

Variable conv2d(const Variable& x, const Variable& w, const Variable& b,
                const Conv2dOptions& options = {});

}  // namespace cbwc
