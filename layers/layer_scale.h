// LayerScale: a gain per channel, x * gain. And ScaledLinear, a Linear with a LayerScale behind it
// as a writer of the residual stream.
#pragma once
#include "layers/effective_parameter.h"
#include "layers/linear.h"
#include "layers/norm.h"

namespace cbwc {

class LayerScale : public Module {
 public:
  LayerScale(Module* parent, const std::string& name, int64_t dim, double value, DType dtype);
  std::string describe() const override;
  Variable forward(const Variable& x);  // (..., dim)
  const ParameterPtr& gain() const { return gain_; }

 private:
  ParameterPtr gain_;
};

// gain (W x + b). In the cbwc_rmsnorm arm with one effective weight: P (diag(gain) W), P (gain b).
// The gain comes first: diag(gain) P W has no zero mean (method.md 3). The parameters
// "linear.weight", "linear.bias" and "scale.gain" are the same in every arm.
class ScaledLinear : public Module {
 public:
  ScaledLinear(Module* parent, const std::string& name, int64_t in, int64_t out, bool bias,
               double gain, bool centered, const Init& init);
  std::string describe() const override;
  Variable forward(const Variable& x);
  const Linear& linear() const { return linear_; }
  const LayerScale& scale() const { return scale_; }

 private:
  Variable scaled_and_centred(const ParameterPtr& parameter) const;
  const bool centered_;
  Linear linear_;
  LayerScale scale_;
  EffectiveParameter weight_, bias_;
};

}  // namespace cbwc
