#include "autograd/ops/activation.h"

#include "autograd/ops/cpu_only.h"

namespace cbwc {
namespace {
const char* activation_name(Activation kind) {
  switch (kind) {
    case Activation::relu:
      return "relu";
    case Activation::silu:
      return "silu";
    case Activation::tanh:
      return "tanh";
    case Activation::sigmoid:
      return "sigmoid";
    default:
      return "gelu";
  }
}
}  // namespace

Variable activate(const Variable& x, Activation kind) {
  const char* name = activation_name(kind);
  CBWC_CHECK(x.defined(), name, ": x is undefined");
  require_cpu(x.value(), name);
  const Tensor in = x.value().contiguous();
  Tensor y = Tensor::empty_like(in);
  dispatch_float(in.dtype(), name, [&](auto zero) {
    using T = decltype(zero);
    cpu::activation_forward<T>(
        {.x = in.data<T>(), .y = y.data<T>(), .n = in.numel(), .kind = kind});
  });
  return record(std::make_unique<ActivationOp>(kind, in), {&x}, y);
}

const char* ActivationOp::name() const { return activation_name(kind_); }

void ActivationOp::backward(Gradients& g) {
  if (!g.wants(0)) return;
  const Tensor dy = g.take_out();
  Tensor dx = dy.unique() ? dy : Tensor::empty_like(dy);
  dispatch_float(dy.dtype(), name(), [&](auto zero) {
    using T = decltype(zero);
    cpu::activation_backward<T>({.dy = dy.data<T>(),
                                 .x = x_.data<T>(),
                                 .dx = dx.data<T>(),
                                 .n = dy.numel(),
                                 .kind = kind_});
  });
  g.give(0, std::move(dx));
}

Variable gelu(const Variable& x, Gelu form) { return activate(x, activation_of(form)); }
Variable relu(const Variable& x) { return activate(x, Activation::relu); }
Variable silu(const Variable& x) { return activate(x, Activation::silu); }
Variable tanh(const Variable& x) { return activate(x, Activation::tanh); }
Variable sigmoid(const Variable& x) { return activate(x, Activation::sigmoid); }

}  // namespace cbwc
