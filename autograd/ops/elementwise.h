// add, sub and mul with NumPy broadcasting, and scale by a constant. Gradients of broadcast inputs
// are summed back to the input's shape.
#pragma once
#include "autograd/tape.h"

namespace cbwc {

Variable add(const Variable& a, const Variable& b);
Variable sub(const Variable& a, const Variable& b);
Variable mul(const Variable& a, const Variable& b);
Variable scale(const Variable& x, double factor);

Shape broadcast_shape(const Shape& a, const Shape& b, const char* who);
// The sum of x over the axes along which `shape` was broadcast; x itself when there are none.
Tensor reduce_to_shape(const Tensor& x, const Shape& shape);
void add_into(Tensor& y, const Tensor& x);  // y += x for any strides, same shape; not recorded

class AddOp : public Op {
 public:
  AddOp(Shape a, Shape b) : a_shape(std::move(a)), b_shape(std::move(b)) {}
  const char* name() const override { return "add"; }
  void backward(Gradients& g) override;
  const Shape a_shape, b_shape;
};

class SubOp : public Op {
 public:
  SubOp(Shape a, Shape b) : a_shape(std::move(a)), b_shape(std::move(b)) {}
  const char* name() const override { return "sub"; }
  void backward(Gradients& g) override;
  const Shape a_shape, b_shape;
};

class MulOp : public Op {
 public:
  MulOp(Tensor a, Tensor b) : a_shape(a.shape()), b_shape(b.shape()), a_(a), b_(b) {}
  const char* name() const override { return "mul"; }
  void backward(Gradients& g) override;
  void release() override { a_ = b_ = Tensor(); }
  const Shape a_shape, b_shape;

 private:
  Tensor a_, b_;
};

class ScaleOp : public Op {
 public:
  explicit ScaleOp(double factor) : factor(factor) {}
  const char* name() const override { return "scale"; }
  void backward(Gradients& g) override;
  const double factor;
};

}  // namespace cbwc
