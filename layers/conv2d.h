// Conv2d: weight (out, in / groups, k, k) and optional bias (out) on x (B, in, H, W). When
// `centered`, both are centred over the outputs (CBWC, as CenteredLinear): every place of the image
// then has zero mean over its channels.
#pragma once
#include "autograd/ops/conv2d.h"
#include "layers/centered_linear.h"

namespace cbwc {

struct Conv2dConfig {
  int64_t in = 0, out = 0, kernel = 1;
  Conv2dOptions options = {};  // stride, padding, groups
  bool bias = true;
};

class Conv2d : public Module {
 public:
  // Error when `centered` with groups: no centring of the weights reaches over them (method.md 3).
  Conv2d(Module* parent, const std::string& name, const Conv2dConfig& config, bool centered,
         const Init& init);
  std::string describe() const override;
  Variable forward(const Variable& x);
  const ParameterPtr& weight() const { return weight_; }
  const ParameterPtr& bias() const { return bias_; }  // null without

 private:
  const Conv2dConfig config_;
  const bool centered_;
  ParameterPtr weight_, bias_;
  CenteredParameter centered_weight_, centered_bias_;
};

}  // namespace cbwc
