#include "layers/layer_norm.h"

#include <fmt/format.h>

#include "autograd/ops/layer_norm.h"

namespace cbwc {

LayerNorm::LayerNorm(Module* parent, const std::string& name, int64_t dim, double eps, bool bias,
                     DType dtype)
    : NormLayer(parent, name), dim_(dim), eps_(eps) {
  add_affine(dim, bias, dtype);
}

std::string LayerNorm::describe() const { return fmt::format("LayerNorm {}, eps {}", dim_, eps_); }

Variable LayerNorm::apply(const Variable& x) {
  return layer_norm(x, use(gamma_), beta_ ? use(beta_) : Variable(), eps_);
}

}  // namespace cbwc
