// Element-wise activations: GELU in both forms, ReLU (derivative 0 at 0), SiLU, tanh, sigmoid.
#pragma once
#include "autograd/tape.h"
#include "core/kernels/activation.h"

namespace cbwc {

enum class Gelu { erf, tanh };

class ActivationOp : public Op {
 public:
  ActivationOp(Activation kind, Tensor x) : kind_(kind), x_(std::move(x)) {}
  const char* name() const override;  // "gelu", "relu", "silu", "tanh", "sigmoid"
  void backward(Gradients& g) override;
  void release() override { x_ = {}; }
  Activation kind() const { return kind_; }

 private:
  Activation kind_;
  Tensor x_;
};

Variable activate(const Variable& x, Activation kind);
inline Activation activation_of(Gelu form) {
  return form == Gelu::erf ? Activation::gelu_erf : Activation::gelu_tanh;
}
Variable gelu(const Variable& x, Gelu form);
Variable relu(const Variable& x);
Variable silu(const Variable& x);
Variable tanh(const Variable& x);
Variable sigmoid(const Variable& x);

}  // namespace cbwc
