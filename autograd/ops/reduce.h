// sum, mean, max and Euclidean norm over any set of axes; an empty list means all of them. max
// shares its gradient evenly between ties; the norm has gradient 0 at 0. (The root of a sum of
// squares written with separate ops would not.) mean, max and norm need at least one element to
// reduce.
#pragma once
#include "autograd/tape.h"
#include "core/kernels/reduce.h"

namespace cbwc {

Variable sum(const Variable& x, std::vector<int> axes = {}, bool keepdim = false);
Variable mean(const Variable& x, std::vector<int> axes = {}, bool keepdim = false);
Variable max(const Variable& x, std::vector<int> axes = {}, bool keepdim = false);
Variable norm(const Variable& x, std::vector<int> axes = {}, bool keepdim = false);

class ReduceOp : public Op {
 public:
  ReduceOp(ReduceKind kind, std::vector<int> axes, bool keepdim, Shape in_shape)
      : kind(kind), axes(std::move(axes)), keepdim(keepdim), in_shape(std::move(in_shape)) {}
  const char* name() const override;  // "sum", "mean", "max", "norm"
  void backward(Gradients& g) override;
  void release() override { x_ = y_ = Tensor(); }
  Tensor forward(const Tensor& x);

  const ReduceKind kind;
  const std::vector<int> axes;  // sorted, not negative
  const bool keepdim;
  const Shape in_shape;

 private:
  Tensor x_, y_;  // in the kernel's layout; max and norm only
};

}  // namespace cbwc
