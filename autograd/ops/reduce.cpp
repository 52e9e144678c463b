#include "autograd/ops/reduce.h"

#include <algorithm>
#include <numeric>

namespace cbwc {
namespace {

const char* kind_name(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::sum:
      return "sum";
    case ReduceKind::mean:
      return "mean";
    case ReduceKind::max:
      return "max";
    default:
      return "norm";
  }
}

// How the kernel sees the input: neighbouring axes stay in place, (outer, n, inner); others are
// moved to the end first.
struct Layout {
  std::vector<int> order;  // axes as the kernel sees them; empty: unchanged
  Shape moved;             // the shape in that order
  int64_t outer = 1, n = 1, inner = 1;
};

Layout layout_of(const Shape& shape, const std::vector<int>& axes) {
  Layout out;
  for (int axis : axes) out.n *= shape[axis];
  const bool neighbours = axes.empty() || axes.back() - axes.front() + 1 == int(axes.size());
  if (neighbours) {
    const int first = axes.empty() ? int(shape.size()) : axes.front();
    const int last = axes.empty() ? first - 1 : axes.back();
    for (int i = 0; i < first; ++i) out.outer *= shape[i];
    for (int i = last + 1; i < int(shape.size()); ++i) out.inner *= shape[i];
    return out;
  }
  for (int i = 0; i < int(shape.size()); ++i) {
    if (std::find(axes.begin(), axes.end(), i) != axes.end()) continue;
    out.order.push_back(i);
    out.outer *= shape[i];
  }
  out.order.insert(out.order.end(), axes.begin(), axes.end());
  for (int axis : out.order) out.moved.push_back(shape[axis]);
  return out;
}

Variable reduce(ReduceKind kind, const Variable& x, std::vector<int> axes, bool keepdim) {
  const char* who = kind_name(kind);
  CBWC_CHECK(is_float(x.dtype()), who, ": expected float32 or float64, got ",
             dtype_name(x.dtype()));
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int& axis : axes) axis = normalize_axis(axis, x.rank(), who);
  std::sort(axes.begin(), axes.end());
  CBWC_CHECK(std::adjacent_find(axes.begin(), axes.end()) == axes.end(), who,
             ": an axis is named twice");
  int64_t n = 1;
  for (int axis : axes) n *= x.size(axis);
  CBWC_CHECK(n > 0 || kind == ReduceKind::sum, who, ": nothing to reduce in shape ",
             to_string(x.shape()));
  auto op = std::make_unique<ReduceOp>(kind, std::move(axes), keepdim, x.shape());
  Tensor y = op->forward(x.value());
  return record(std::move(op), {&x}, std::move(y));
}

}  // namespace

const char* ReduceOp::name() const { return kind_name(kind); }

Tensor ReduceOp::forward(const Tensor& in) {
  const Layout layout = layout_of(in_shape, axes);
  const Tensor x = layout.order.empty() ? in.contiguous() : in.permute(layout.order).contiguous();
  Shape out_shape;
  for (int i = 0; i < in.rank(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!reduced) out_shape.push_back(in.size(i));
    if (reduced && keepdim) out_shape.push_back(1);
  }
  Tensor y = Tensor::empty(out_shape, in.dtype(), in.device());
  dispatch_float(in.dtype(), name(), [&](auto zero) {
    using T = decltype(zero);
    reduce_forward(in.device(), ReduceForward<T>{.kind = kind,
                                                 .x = x.data<T>(),
                                                 .y = y.data<T>(),
                                                 .outer = layout.outer,
                                                 .n = layout.n,
                                                 .inner = layout.inner});
  });
  if (kind == ReduceKind::max || kind == ReduceKind::norm) {
    x_ = x;
    y_ = y;
  }
  return y;
}

void ReduceOp::backward(Gradients& g) {
  const Layout layout = layout_of(in_shape, axes);
  const Tensor dy = g.out().contiguous();
  const Shape& shape = layout.order.empty() ? in_shape : layout.moved;
  Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device());
  dispatch_float(dy.dtype(), name(), [&](auto zero) {
    using T = decltype(zero);
    reduce_backward(dy.device(), ReduceBackward<T>{.kind = kind,
                                                   .dy = dy.data<T>(),
                                                   .x = x_.defined() ? x_.data<T>() : nullptr,
                                                   .y = y_.defined() ? y_.data<T>() : nullptr,
                                                   .dx = dx.data<T>(),
                                                   .outer = layout.outer,
                                                   .n = layout.n,
                                                   .inner = layout.inner});
  });
  if (!layout.order.empty()) {
    std::vector<int> back(layout.order.size());
    for (size_t i = 0; i < back.size(); ++i) back[layout.order[i]] = static_cast<int>(i);
    dx = dx.permute(back).contiguous();
  }
  g.give(0, std::move(dx));
}

Variable sum(const Variable& x, std::vector<int> axes, bool keepdim) {
  return reduce(ReduceKind::sum, x, std::move(axes), keepdim);
}
Variable mean(const Variable& x, std::vector<int> axes, bool keepdim) {
  return reduce(ReduceKind::mean, x, std::move(axes), keepdim);
}
Variable max(const Variable& x, std::vector<int> axes, bool keepdim) {
  return reduce(ReduceKind::max, x, std::move(axes), keepdim);
}
Variable norm(const Variable& x, std::vector<int> axes, bool keepdim) {
  return reduce(ReduceKind::norm, x, std::move(axes), keepdim);
}

}  // namespace cbwc
