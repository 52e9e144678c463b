#include "layers/rms_norm.h"

#include <fmt/format.h>

#include "autograd/ops/rms_norm.h"

namespace cbwc {

RMSNorm::RMSNorm(Module* parent, const std::string& name, int64_t dim, double eps, bool bias,
                 DType dtype)
    : NormLayer(parent, name), dim_(dim), eps_(eps) {
  add_affine(dim, bias, dtype);
}

std::string RMSNorm::describe() const { return fmt::format("RMSNorm {}, eps {}", dim_, eps_); }

Variable RMSNorm::apply(const Variable& x) {
  const Variable gamma = use(gamma_), beta = beta_ ? use(beta_) : Variable();
  return rms_norm(x, gamma, beta, eps_);
}

}  // namespace cbwc
