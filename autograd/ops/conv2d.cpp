#include "autograd/ops/conv2d.h"

#include "autograd/ops/cpu_only.h"

namespace cbwc {
namespace {

Conv2dSizes checked(const Variable& x, const Variable& w, const Variable& b,
                    const Conv2dOptions& o) {
  CBWC_CHECK(x.defined() && x.rank() == 4, "conv2d: x has the shape ", to_string(x.shape()),
             ", expected (batch, channels, height, width)");
  CBWC_CHECK(w.defined() && w.rank() == 4, "conv2d: w has the shape ", to_string(w.shape()),
             ", expected (out, in / groups, kernel height, kernel width)");
  CBWC_CHECK(o.stride >= 1 && o.padding >= 0 && o.groups >= 1,
             "conv2d: stride and groups must be at least 1 and padding at least 0, got ", o.stride,
             ", ", o.groups, " and ", o.padding);
  const Conv2dSizes s{x.size(0), x.size(1), x.size(2), x.size(3), w.size(0),
                      w.size(2), w.size(3), o.stride,  o.padding, o.groups};
  CBWC_CHECK(s.in > 0 && s.out > 0 && s.in % s.groups == 0 && s.out % s.groups == 0,
             "conv2d: ", s.groups, " groups do not divide ", s.in, " input and ", s.out,
             " output channels");
  CBWC_CHECK(w.size(1) == s.in / s.groups, "conv2d: w has the shape ", to_string(w.shape()),
             ", expected ", s.in / s.groups, " input channels per group");
  CBWC_CHECK(s.kernel_h > 0 && s.kernel_w > 0 && s.kernel_h <= s.height + 2 * s.padding &&
                 s.kernel_w <= s.width + 2 * s.padding,
             "conv2d: a kernel of ", s.kernel_h, " x ", s.kernel_w, " does not fit an image of ",
             s.height, " x ", s.width, " with padding ", s.padding);
  CBWC_CHECK(!b.defined() || (b.rank() == 1 && b.size(0) == s.out), "conv2d: b has the shape ",
             to_string(b.shape()), ", expected (", s.out, ")");
  CBWC_CHECK(x.dtype() == w.dtype() && (!b.defined() || b.dtype() == w.dtype()),
             "conv2d: x, w and b must have one dtype");
  return s;
}

}  // namespace

void Conv2dOp::backward(Gradients& g) {
  const Tensor& dy = g.out();
  Gradients::Target targets[3] = {};
  for (int i = 0; i < 3; ++i) {
    if (g.wants(i)) targets[i] = g.target(i);
  }
  dispatch_float(dy.dtype(), "conv2d", [&](auto zero) {
    using T = decltype(zero);
    const auto data = [&](int i) {
      return targets[i].buffer.defined() ? targets[i].buffer.data<T>() : nullptr;
    };
    cpu::conv2d_backward<T>({.x = x_.data<T>(),
                             .w = w_.data<T>(),
                             .dy = dy.data<T>(),
                             .dx = data(0),
                             .dw = data(1),
                             .db = data(2),
                             .accumulate_dx = targets[0].accumulate,
                             .accumulate_dw = targets[1].accumulate,
                             .accumulate_db = targets[2].accumulate,
                             .sizes = sizes_});
  });
}

Variable conv2d(const Variable& x, const Variable& w, const Variable& b,
                const Conv2dOptions& options) {
  const Conv2dSizes s = checked(x, w, b, options);
  require_cpu(x.value(), "conv2d");
  const Tensor image = x.value().contiguous(), weight = w.value().contiguous(),
               bias = b.value().contiguous();
  Tensor y = Tensor::empty({s.batch, s.out, s.out_height(), s.out_width()}, x.dtype());
  dispatch_float(x.dtype(), "conv2d", [&](auto zero) {
    using T = decltype(zero);
    cpu::conv2d_forward<T>({.x = image.data<T>(),
                            .w = weight.data<T>(),
                            .b = bias.defined() ? bias.data<T>() : nullptr,
                            .y = y.data<T>(),
                            .sizes = s});
  });
  return record(std::make_unique<Conv2dOp>(s, image, weight), {&x, &w, &b}, y);
}

}  // namespace cbwc
