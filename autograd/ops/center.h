// center(x, axis) = P x: subtracts the mean along one axis (method.md 2). On a weight [out, in]
// with axis 0 this is CBWC's effective weight V = P W.
#pragma once
#include "autograd/tape.h"

namespace cbwc {

class CenterOp : public Op {
 public:
  explicit CenterOp(int axis) : axis(axis) {}
  const char* name() const override { return "center"; }
  void backward(Gradients& g) override;

  const int axis;  // counted from the front
};

Variable center(const Variable& x, int axis);
// The same, with P x already at hand (CenteredLinear computes it once per step): records the node
// only.
Variable center(const Variable& x, int axis, const Tensor& centered);
Tensor center(const Tensor& x, int axis);

}  // namespace cbwc
