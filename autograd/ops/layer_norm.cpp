#include "autograd/ops/layer_norm.h"

#include "autograd/ops/norm_arguments.h"
#include "core/kernels/layer_norm.h"

namespace cbwc {

void LayerNormOp::backward(Gradients& g) {
  const Tensor& dy = g.out();
  Tensor dx = g.wants(0) ? Tensor::empty_like(dy) : Tensor();
  const auto dgamma = target_or_none(g, 1), dbeta = target_or_none(g, 2);
  dispatch_float(dy.dtype(), name(), [&](auto zero) {
    using T = decltype(zero);
    layer_norm_backward<T>(dy.device(), {.dy = dy.data<T>(),
                                         .x = x_.data<T>(),
                                         .gamma = data_or_null<T>(gamma_),
                                         .mean = mean_.data<T>(),
                                         .rstd = rstd_.data<T>(),
                                         .dx = data_or_null<T>(dx),
                                         .dgamma = data_or_null<T>(dgamma.buffer),
                                         .dbeta = data_or_null<T>(dbeta.buffer),
                                         .accumulate_dgamma = dgamma.accumulate,
                                         .accumulate_dbeta = dbeta.accumulate,
                                         .rows = mean_.numel(),
                                         .cols = dy.size(-1)});
  });
  if (dx.defined()) g.give(0, std::move(dx));
}

Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, double eps) {
  check_norm_arguments("layer_norm", x, gamma, beta, eps);
  const Tensor in = x.value().contiguous();
  const Tensor gain = gamma.value().contiguous(), bias = beta.value().contiguous();
  const int64_t cols = in.size(-1), rows = in.numel() / cols;
  Tensor y = Tensor::empty_like(in);
  Tensor mean = Tensor::empty({rows}, in.dtype(), in.device());
  Tensor rstd = Tensor::empty({rows}, in.dtype(), in.device());
  dispatch_float(in.dtype(), "layer_norm", [&](auto zero) {
    using T = decltype(zero);
    layer_norm_forward<T>(in.device(), {.x = in.data<T>(),
                                        .gamma = data_or_null<T>(gain),
                                        .beta = data_or_null<T>(bias),
                                        .y = y.data<T>(),
                                        .mean = mean.data<T>(),
                                        .rstd = rstd.data<T>(),
                                        .rows = rows,
                                        .cols = cols,
                                        .eps = eps});
  });
  return record(std::make_unique<LayerNormOp>(in, gain, mean, rstd, eps, beta.defined()),
                {&x, &gamma, &beta}, y);
}

}  // namespace cbwc
