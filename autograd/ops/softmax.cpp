#include "autograd/ops/softmax.h"

#include "autograd/ops/cpu_only.h"
#include "core/kernels/softmax.h"

namespace cbwc {
namespace {
int64_t rows_of(const Tensor& x) { return x.numel() / std::max<int64_t>(1, x.size(-1)); }
}  // namespace

void SoftmaxOp::backward(Gradients& g) {
  if (!g.wants(0)) return;
  const Tensor dy = g.take_out();
  Tensor dx = dy.unique() ? dy : Tensor::empty_like(dy);
  dispatch_float(dy.dtype(), "softmax", [&](auto zero) {
    using T = decltype(zero);
    cpu::softmax_backward<T>({.dy = dy.data<T>(),
                              .y = y_.data<T>(),
                              .dx = dx.data<T>(),
                              .rows = rows_of(dy),
                              .cols = dy.size(-1)});
  });
  g.give(0, std::move(dx));
}

Variable softmax(const Variable& x) {
  CBWC_CHECK(x.rank() >= 1, "softmax: x needs at least one axis");
  require_cpu(x.value(), "softmax");
  const Tensor in = x.value().contiguous();
  Tensor y = Tensor::empty_like(in);
  dispatch_float(in.dtype(), "softmax", [&](auto zero) {
    using T = decltype(zero);
    cpu::softmax_forward<T>(
        {.x = in.data<T>(), .y = y.data<T>(), .rows = rows_of(in), .cols = in.size(-1)});
  });
  return record(std::make_unique<SoftmaxOp>(y), {&x}, y);
}

}  // namespace cbwc
