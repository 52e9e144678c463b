// RMSNorm over the last axis, eps inside the root, with gain and optional bias.
#pragma once
#include "layers/norm.h"

namespace cbwc {

class RMSNorm : public NormLayer {
 public:
  RMSNorm(Module* parent, const std::string& name, int64_t dim, double eps, bool bias, DType dtype);
  std::string describe() const override;

 private:
  Variable apply(const Variable& x) override;
  const int64_t dim_;
  const double eps_;
};

}  // namespace cbwc
