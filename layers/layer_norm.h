// LayerNorm over the last axis with gain and optional bias (method.md 1).
#pragma once
#include "layers/norm.h"

namespace cbwc {

class LayerNorm : public NormLayer {
 public:
  LayerNorm(Module* parent, const std::string& name, int64_t dim, double eps, bool bias,
            DType dtype);
  std::string describe() const override;

 private:
  Variable apply(const Variable& x) override;
  const int64_t dim_;
  const double eps_;
};

}  // namespace cbwc
