#include "layers/conv2d.h"

#include <fmt/format.h>

namespace cbwc {

Conv2d::Conv2d(Module* parent, const std::string& name, const Conv2dConfig& config, bool centered,
               const Init& init)
    : Module(parent, name), config_(config), centered_(centered) {
  const int64_t groups = config.options.groups;
  CBWC_CHECK(config.in > 0 && config.out > 0 && config.kernel > 0, path(),
             ": a convolution needs positive sizes, got ", config.in, " -> ", config.out,
             ", kernel ", config.kernel);
  CBWC_CHECK(groups > 0 && config.in % groups == 0 && config.out % groups == 0, path(), ": ",
             groups, " groups do not divide ", config.in, " input and ", config.out,
             " output channels");
  CBWC_CHECK(!centered || groups == 1, path(), ": a convolution with ", groups,
             " groups cannot be centred over its channels");
  weight_ = add_parameter("weight", {config.out, config.in / groups, config.kernel, config.kernel},
                          Role::weight, init);
  if (config.bias)
    bias_ = add_constant_parameter("bias", {config.out}, Role::bias, 0.0, init.dtype);
}

std::string Conv2d::describe() const {
  const Conv2dOptions& o = config_.options;
  return fmt::format("{}Conv2d {} -> {}, kernel {}, stride {}, padding {}, groups {}",
                     centered_ ? "centred " : "", config_.in, config_.out, config_.kernel, o.stride,
                     o.padding, o.groups);
}

Variable Conv2d::forward(const Variable& x) {
  const ScopeGuard scope(name());
  const Variable weight = centered_ ? centered_weight_.get(weight_, 0) : use(weight_);
  Variable bias;
  if (bias_) bias = centered_ ? centered_bias_.get(bias_, 0) : use(bias_);
  return conv2d(x, weight, bias, config_.options);
}

}  // namespace cbwc
