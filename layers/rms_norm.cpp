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
  return rms_norm(x, use(gamma_), beta_ ? use(beta_) : Variable(), eps_);
}

}  // namespace cbwc
