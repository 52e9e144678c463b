#include "autograd/ops/shape.h"

#include "autograd/ops/elementwise.h"

namespace cbwc {
namespace {

Tensor rolled(const Tensor& x, int axis, int64_t shift) {
  const int64_t n = x.size(axis);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  const int64_t s = n == 0 ? 0 : ((shift % n) + n) % n;
  if (s < n) y.slice(axis, s, n).copy_from(x.slice(axis, 0, n - s));
  if (s > 0) y.slice(axis, 0, s).copy_from(x.slice(axis, n - s, n));
  return y;
}

}  // namespace

void ReshapeOp::backward(Gradients& g) {
  const Tensor dy = g.take_out();
  g.give(0, dy.contiguous().reshape(in_shape));
}

void PermuteOp::backward(Gradients& g) {
  std::vector<int> back(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) back[axes[i]] = static_cast<int>(i);
  g.give(0, g.out().permute(back).contiguous());
}

void SliceOp::backward(Gradients& g) {
  auto target = g.target(0);
  if (!target.accumulate) target.buffer.fill(0.0);
  Tensor part = target.buffer.slice(axis, start, end);
  target.accumulate ? add_into(part, g.out()) : part.copy_from(g.out());
}

void ConcatOp::backward(Gradients& g) {
  const Tensor& dy = g.out();
  int64_t at = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    const int input = static_cast<int>(i);
    // clone: with a single part the slice would be dy itself, which others may hold.
    if (g.wants(input)) g.give(input, dy.slice(axis, at, at + extents[i]).clone());
    at += extents[i];
  }
}

void RollOp::backward(Gradients& g) {
  Tensor dx = g.out();
  for (size_t i = 0; i < axes.size(); ++i) dx = rolled(dx, axes[i], -shifts[i]);
  g.give(0, std::move(dx));
}

void PadOp::backward(Gradients& g) {
  const Tensor& dy = g.out();
  g.give(0, dy.slice(axis, before, dy.size(axis) - after).clone());
}

Variable reshape(const Variable& x, Shape shape) {
  Tensor y = x.value().reshape(std::move(shape));
  auto op = std::make_unique<ReshapeOp>(x.shape(), y.shape());
  return record(std::move(op), {&x}, std::move(y));
}

Variable permute(const Variable& x, std::vector<int> axes) {
  for (int& axis : axes) axis = normalize_axis(axis, x.rank(), "permute");
  Tensor y = x.value().permute(axes);
  return record(std::make_unique<PermuteOp>(std::move(axes)), {&x}, std::move(y));
}

Variable slice(const Variable& x, int axis, int64_t start, int64_t end) {
  axis = normalize_axis(axis, x.rank(), "slice");
  CBWC_CHECK(0 <= start && start <= end && end <= x.size(axis), "slice: [", start, ", ", end,
             ") does not fit axis ", axis, " of ", to_string(x.shape()));
  Tensor y = x.value().slice(axis, start, end);
  return record(std::make_unique<SliceOp>(axis, start, end, x.shape()), {&x}, std::move(y));
}

Variable concat(const std::vector<Variable>& parts, int axis) {
  CBWC_CHECK(!parts.empty(), "concat: no parts");
  Shape shape = parts[0].shape();
  axis = normalize_axis(axis, parts[0].rank(), "concat");
  shape[axis] = 0;
  std::vector<int64_t> extents;
  std::vector<const Variable*> inputs;
  for (const Variable& part : parts) {
    Shape other = part.shape();
    if (other.size() == shape.size()) other[axis] = shape[axis];
    CBWC_CHECK(other == shape && part.dtype() == parts[0].dtype(),
               "concat: ", to_string(part.shape()), " ", dtype_name(part.dtype()), " does not fit ",
               to_string(parts[0].shape()), " ", dtype_name(parts[0].dtype()), " along axis ",
               axis);
    extents.push_back(part.size(axis));
    shape[axis] += extents.back();
    inputs.push_back(&part);
  }
  Tensor y = Tensor::empty(shape, parts[0].dtype(), parts[0].value().device());
  int64_t at = 0;
  for (const Variable& part : parts) {
    y.slice(axis, at, at + part.size(axis)).copy_from(part.value());
    at += part.size(axis);
  }
  return record(std::make_unique<ConcatOp>(axis, std::move(extents)), inputs, std::move(y));
}

Variable roll(const Variable& x, std::vector<int64_t> shifts, std::vector<int> axes) {
  CBWC_CHECK(shifts.size() == axes.size(), "roll: ", shifts.size(), " shifts for ", axes.size(),
             " axes");
  Tensor y = x.value();
  for (size_t i = 0; i < axes.size(); ++i) {
    axes[i] = normalize_axis(axes[i], x.rank(), "roll");
    y = rolled(y, axes[i], shifts[i]);
  }
  auto op = std::make_unique<RollOp>(std::move(shifts), std::move(axes));
  return record(std::move(op), {&x}, std::move(y));
}

Variable pad(const Variable& x, int axis, int64_t before, int64_t after, double value) {
  axis = normalize_axis(axis, x.rank(), "pad");
  CBWC_CHECK(before >= 0 && after >= 0, "pad: negative amounts ", before, " and ", after);
  Shape shape = x.shape();
  shape[axis] += before + after;
  Tensor y = Tensor::full(shape, value, x.dtype(), x.value().device());
  y.slice(axis, before, before + x.size(axis)).copy_from(x.value());
  return record(std::make_unique<PadOp>(axis, before, after, value), {&x}, std::move(y));
}

}  // namespace cbwc
