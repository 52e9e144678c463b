// Ops that move elements and change none: views where the strides allow, copies elsewhere.
#pragma once
#include "autograd/tape.h"

namespace cbwc {

Variable reshape(const Variable& x, Shape shape);  // one extent may be -1
Variable permute(const Variable& x, std::vector<int> axes);
Variable slice(const Variable& x, int axis, int64_t start, int64_t end);  // [start, end)
Variable concat(const std::vector<Variable>& parts, int axis);
// Element i of the result's axis is element i - shift of x's, cyclically.
Variable roll(const Variable& x, std::vector<int64_t> shifts, std::vector<int> axes);
Variable pad(const Variable& x, int axis, int64_t before, int64_t after, double value = 0.0);

class ReshapeOp : public Op {
 public:
  ReshapeOp(Shape in, Shape out) : in_shape(std::move(in)), out_shape(std::move(out)) {}
  const char* name() const override { return "reshape"; }
  void backward(Gradients& g) override;
  const Shape in_shape, out_shape;
};

class PermuteOp : public Op {
 public:
  explicit PermuteOp(std::vector<int> axes) : axes(std::move(axes)) {}
  const char* name() const override { return "permute"; }
  void backward(Gradients& g) override;
  const std::vector<int> axes;  // axis i of the result is axis axes[i] of x
};

class SliceOp : public Op {
 public:
  SliceOp(int axis, int64_t start, int64_t end, Shape in)
      : axis(axis), start(start), end(end), in_shape(std::move(in)) {}
  const char* name() const override { return "slice"; }
  void backward(Gradients& g) override;
  const int axis;
  const int64_t start, end;
  const Shape in_shape;
};

class ConcatOp : public Op {
 public:
  ConcatOp(int axis, std::vector<int64_t> extents) : axis(axis), extents(std::move(extents)) {}
  const char* name() const override { return "concat"; }
  void backward(Gradients& g) override;
  const int axis;
  const std::vector<int64_t> extents;  // of every part along axis
};

class RollOp : public Op {
 public:
  RollOp(std::vector<int64_t> shifts, std::vector<int> axes)
      : shifts(std::move(shifts)), axes(std::move(axes)) {}
  const char* name() const override { return "roll"; }
  void backward(Gradients& g) override;
  const std::vector<int64_t> shifts;
  const std::vector<int> axes;
};

class PadOp : public Op {
 public:
  PadOp(int axis, int64_t before, int64_t after, double value)
      : axis(axis), before(before), after(after), value(value) {}
  const char* name() const override { return "pad"; }
  void backward(Gradients& g) override;
  const int axis;
  const int64_t before, after;
  const double value;
};

}  // namespace cbwc
