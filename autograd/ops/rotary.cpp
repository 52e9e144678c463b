#include "autograd/ops/rotary.h"

#include <cmath>

#include "autograd/ops/cpu_only.h"
#include "core/kernels/rotary.h"

namespace cbwc {
namespace {

void turn(const Tensor& x, const Tensor& y, const RotaryOptions& o, bool inverse) {
  dispatch_float(x.dtype(), "rotary", [&](auto zero) {
    using T = decltype(zero);
    cpu::rotary<T>({.x = x.data<T>(),
                    .y = y.data<T>(),
                    .batch = x.size(0),
                    .tokens = x.size(1),
                    .heads = x.size(2),
                    .D = x.size(3),
                    .channels = o.channels,
                    .first = o.first,
                    .base = o.base,
                    .inverse = inverse});
  });
}

}  // namespace

void RotaryOp::backward(Gradients& g) {
  if (!g.wants(0)) return;
  const Tensor dy = g.take_out();
  Tensor dx = dy.unique() ? dy : Tensor::empty_like(dy);
  turn(dy, dx, options, true);
  g.give(0, std::move(dx));
}

Variable rotary(const Variable& x, const RotaryOptions& options) {
  CBWC_CHECK(x.rank() == 4, "rotary: x must be (B, T, H, D), got ", to_string(x.shape()));
  RotaryOptions o = options;
  if (o.channels == 0) o.channels = x.size(3);
  CBWC_CHECK(o.channels > 0 && o.channels % 2 == 0 && o.channels <= x.size(3),
             "rotary: the turned channels must be even and at most ", x.size(3), ", got ",
             o.channels);
  CBWC_CHECK(o.first >= 0 && o.base > 0 && std::isfinite(o.base),
             "rotary: first must be at least 0 and base positive, got ", o.first, " and ", o.base);
  require_cpu(x.value(), "rotary");
  const Tensor in = x.value().contiguous();
  const Tensor y = Tensor::empty_like(in);
  turn(in, y, o, false);
  return record(std::make_unique<RotaryOp>(o), {&x}, y);
}

}  // namespace cbwc
