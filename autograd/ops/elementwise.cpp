#include "autograd/ops/elementwise.h"

#include <algorithm>

#include "core/kernels/elementwise.h"
#include "core/kernels/reduce.h"

namespace cbwc {
namespace {

void run_binary(BinaryKind kind, const Tensor& a, const Tensor& b, Tensor& y) {
  CBWC_CHECK(y.rank() <= kMaxRank, "at most ", kMaxRank, " axes, got ", to_string(y.shape()));
  dispatch_float(y.dtype(), "elementwise", [&](auto zero) {
    using T = decltype(zero);
    Binary<T> args{.kind = kind,
                   .a = a.data<T>(),
                   .b = b.data<T>(),
                   .y = y.data<T>(),
                   .rank = y.rank(),
                   .shape = {},
                   .a_strides = {},
                   .b_strides = {},
                   .y_strides = {}};
    std::copy(y.shape().begin(), y.shape().end(), args.shape);
    std::copy(a.strides().begin(), a.strides().end(), args.a_strides);
    std::copy(b.strides().begin(), b.strides().end(), args.b_strides);
    std::copy(y.strides().begin(), y.strides().end(), args.y_strides);
    binary(y.device(), args);
  });
}

Tensor compute(BinaryKind kind, const Tensor& a, const Tensor& b, const char* who) {
  CBWC_CHECK(a.dtype() == b.dtype(), who, ": operands are ", dtype_name(a.dtype()), " and ",
             dtype_name(b.dtype()));
  CBWC_CHECK(a.device() == b.device(), who, ": operands are on different devices");
  Shape shape = broadcast_shape(a.shape(), b.shape(), who);
  Tensor y = Tensor::empty(shape, a.dtype(), a.device());
  run_binary(kind, a.expand(shape), b.expand(shape), y);
  return y;
}

Tensor scaled(const Tensor& x, double factor) {
  const Tensor in = x.contiguous();
  Tensor y = Tensor::empty_like(in);
  dispatch_float(in.dtype(), "scale", [&](auto zero) {
    using T = decltype(zero);
    scale(in.device(), y.data<T>(), factor, in.data<T>(), in.numel());
  });
  return y;
}

// Sum over one axis, which stays with extent 1.
Tensor sum_axis(const Tensor& in, int axis) {
  const Tensor x = in.contiguous();
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.size(i);
  for (int i = axis + 1; i < x.rank(); ++i) inner *= x.size(i);
  Shape shape = x.shape();
  shape[axis] = 1;
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  dispatch_float(x.dtype(), "sum", [&](auto zero) {
    using T = decltype(zero);
    reduce_forward(x.device(), ReduceForward<T>{.kind = ReduceKind::sum,
                                                .x = x.data<T>(),
                                                .y = y.data<T>(),
                                                .outer = outer,
                                                .n = x.size(axis),
                                                .inner = inner});
  });
  return y;
}

}  // namespace

Shape broadcast_shape(const Shape& a, const Shape& b, const char* who) {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i < rank - a.size() ? 1 : a[i - (rank - a.size())];
    const int64_t y = i < rank - b.size() ? 1 : b[i - (rank - b.size())];
    CBWC_CHECK(x == y || x == 1 || y == 1, who, ": shapes ", to_string(a), " and ", to_string(b),
               " do not broadcast");
    out[i] = x == 1 ? y : x;
  }
  return out;
}

Tensor reduce_to_shape(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int extra = x.rank() - static_cast<int>(shape.size());
  // The leading broadcast axes are one axis to the kernel.
  Tensor y = x.contiguous();
  if (extra > 0) {
    Shape flat(x.shape().begin() + extra - 1, x.shape().end());
    flat[0] = 1;
    for (int i = 0; i < extra; ++i) flat[0] *= x.size(i);
    y = sum_axis(y.reshape(flat), 0);
    y = y.reshape(Shape(flat.begin() + 1, flat.end()));
  }
  for (int i = 0; i < y.rank(); ++i) {
    if (shape[i] != y.size(i)) y = sum_axis(y, i);
  }
  return y;
}

void add_into(Tensor& y, const Tensor& x) {
  CBWC_CHECK(y.shape() == x.shape() && y.dtype() == x.dtype(), "add_into: ", to_string(x.shape()),
             " does not fit ", to_string(y.shape()));
  run_binary(BinaryKind::add, y, x, y);
}

void AddOp::backward(Gradients& g) {
  const Tensor dy = g.take_out();
  if (g.wants(0)) g.give(0, reduce_to_shape(dy, a_shape));
  if (g.wants(1)) g.give(1, reduce_to_shape(dy, b_shape));
}

void SubOp::backward(Gradients& g) {
  const Tensor dy = g.take_out();
  if (g.wants(0)) g.give(0, reduce_to_shape(dy, a_shape));
  if (g.wants(1)) g.give(1, scaled(reduce_to_shape(dy, b_shape), -1.0));
}

void MulOp::backward(Gradients& g) {
  const Tensor& dy = g.out();
  if (g.wants(0)) g.give(0, reduce_to_shape(compute(BinaryKind::mul, dy, b_, "mul"), a_shape));
  if (g.wants(1)) g.give(1, reduce_to_shape(compute(BinaryKind::mul, dy, a_, "mul"), b_shape));
}

void ScaleOp::backward(Gradients& g) { g.give(0, scaled(g.out(), factor)); }

Variable add(const Variable& a, const Variable& b) {
  Tensor y = compute(BinaryKind::add, a.value(), b.value(), "add");
  return record(std::make_unique<AddOp>(a.shape(), b.shape()), {&a, &b}, std::move(y));
}

Variable sub(const Variable& a, const Variable& b) {
  Tensor y = compute(BinaryKind::sub, a.value(), b.value(), "sub");
  return record(std::make_unique<SubOp>(a.shape(), b.shape()), {&a, &b}, std::move(y));
}

Variable mul(const Variable& a, const Variable& b) {
  Tensor y = compute(BinaryKind::mul, a.value(), b.value(), "mul");
  return record(std::make_unique<MulOp>(a.value(), b.value()), {&a, &b}, std::move(y));
}

Variable scale(const Variable& x, double factor) {
  Tensor y = scaled(x.value(), factor);
  return record(std::make_unique<ScaleOp>(factor), {&x}, std::move(y));
}

}  // namespace cbwc
