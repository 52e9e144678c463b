#include "layers/layer_norm.h"

#include <fmt/format.h>

#include "autograd/ops/layer_norm.h"
#include "autograd/ops/rms_norm.h"

namespace cbwc {

LayerNorm::LayerNorm(Module* parent, const std::string& name, int64_t dim, double eps, bool bias,
                     DType dtype)
    : NormLayer(parent, name), dim_(dim), eps_(eps) {
  add_affine(dim, bias, dtype);
}

std::string LayerNorm::describe() const {
  return fmt::format("{} {}, eps {}", is_rms_norm_ ? "RMSNorm (folded LayerNorm)" : "LayerNorm",
                     dim_, eps_);
}

Variable LayerNorm::apply(const Variable& x) {
  const Variable gamma = use(gamma_), beta = beta_ ? use(beta_) : Variable();
  return is_rms_norm_ ? rms_norm(x, gamma, beta, eps_) : layer_norm(x, gamma, beta, eps_);
}

}  // namespace cbwc
