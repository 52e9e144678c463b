// LayerNorm over the last axis with gain and optional bias (method.md 1). A folded one computes
// RMSNorm with the same eps, gain and bias.
#pragma once
#include "layers/norm.h"

namespace cbwc {

class LayerNorm : public NormLayer {
 public:
  LayerNorm(Module* parent, const std::string& name, int64_t dim, double eps, bool bias,
            DType dtype);
  std::string describe() const override;
  double eps() const { return eps_; }
  void become_rms_norm() { is_rms_norm_ = true; }  // from now on
  bool is_rms_norm() const { return is_rms_norm_; }

 private:
  Variable apply(const Variable& x) override;
  const int64_t dim_;
  const double eps_;
  bool is_rms_norm_ = false;
};

}  // namespace cbwc
