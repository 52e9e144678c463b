#include "autograd/ops/center.h"

#include "autograd/ops/cpu_only.h"
#include "core/kernels/centering.h"

namespace cbwc {
namespace {

void run(const Tensor& x, int axis, Tensor& y, bool accumulate) {
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.size(i);
  for (int i = axis + 1; i < x.rank(); ++i) inner *= x.size(i);
  dispatch_float(x.dtype(), "center", [&](auto zero) {
    using T = decltype(zero);
    cpu::center<T>({.x = x.data<T>(),
                    .y = y.data<T>(),
                    .outer = outer,
                    .n = x.size(axis),
                    .inner = inner,
                    .accumulate = accumulate});
  });
}

}  // namespace

void CenterOp::backward(Gradients& g) {
  if (!g.wants(0)) return;
  const Tensor dy = g.take_out();
  auto [dx, accumulate] = g.target(0);
  run(dy, axis, dx, accumulate);
}

Tensor center(const Tensor& x, int axis) {
  axis = normalize_axis(axis, x.rank(), "center");
  require_cpu(x, "center");
  const Tensor in = x.contiguous();
  Tensor y = Tensor::empty_like(in);
  run(in, axis, y, false);
  return y;
}

Variable center(const Variable& x, int axis) { return center(x, axis, center(x.value(), axis)); }

Variable center(const Variable& x, int axis, const Tensor& centered) {
  axis = normalize_axis(axis, x.rank(), "center");
  CBWC_CHECK(centered.shape() == x.shape() && centered.dtype() == x.dtype(),
             "center: the centred tensor does not fit x");
  return record(std::make_unique<CenterOp>(axis), {&x}, centered);
}

}  // namespace cbwc
