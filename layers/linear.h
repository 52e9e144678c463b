// Linear: y = x W^T + b, W (out, in). The centred form is in centered_linear.h.
#pragma once
#include <memory>

#include "layers/module.h"

namespace cbwc {

class Linear : public Module {
 public:
  // The weight is drawn with the init's deviation; the bias starts at zero.
  Linear(Module* parent, const std::string& name, int64_t in, int64_t out, bool bias,
         const Init& init);
  std::string describe() const override;
  Variable forward(const Variable& x);
  bool restore_input() override { return restore_input_ = true; }
  bool can_restore_input() const override { return true; }
  const ParameterPtr& weight() const { return weight_; }
  const ParameterPtr& bias() const { return bias_; }  // null without

 protected:
  virtual Variable effective_weight() { return use(weight_); }
  virtual Variable effective_bias() { return bias_ ? use(bias_) : Variable(); }
  ParameterPtr weight_, bias_;

 private:
  bool restore_input_ = false;
};

// A writer of the residual stream: CenteredLinear when `centered`, else Linear.
std::unique_ptr<Linear> make_linear(bool centered, Module* parent, const std::string& name,
                                    int64_t in, int64_t out, bool bias, const Init& init);

}  // namespace cbwc
