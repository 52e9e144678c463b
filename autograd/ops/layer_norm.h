// layer_norm(x, gamma, beta, eps) over the last axis of x (..., cols); gamma and beta (cols) may be
// undefined. method.md 1.
#pragma once
#include "autograd/tape.h"

namespace cbwc {

class LayerNormOp : public Op {
 public:
  LayerNormOp(Tensor x, Tensor gamma, Tensor mean, Tensor rstd, double eps, bool has_beta)
      : eps(eps),
        has_gamma(gamma.defined()),
        has_beta(has_beta),
        x_(std::move(x)),
        gamma_(std::move(gamma)),
        mean_(std::move(mean)),
        rstd_(std::move(rstd)) {}
  const char* name() const override { return "layer_norm"; }
  void backward(Gradients& g) override;
  void release() override { x_ = gamma_ = mean_ = rstd_ = {}; }

  const double eps;
  const bool has_gamma, has_beta;

 private:
  Tensor x_, gamma_, mean_, rstd_;
};

Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, double eps);

}  // namespace cbwc
