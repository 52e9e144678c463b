#include "layers/layer_scale.h"

#include <fmt/format.h>

#include "autograd/ops/center.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/shape.h"

namespace cbwc {

LayerScale::LayerScale(Module* parent, const std::string& name, int64_t dim, double value,
                       DType dtype)
    : Module(parent, name),
      gain_(add_constant_parameter("gain", {dim}, Role::norm_gain, value, dtype)) {}

std::string LayerScale::describe() const {
  return fmt::format("LayerScale {}", gain_->value().numel());
}

Variable LayerScale::forward(const Variable& x) {
  const ScopeGuard scope(name());
  return mul(x, use(gain_));
}

ScaledLinear::ScaledLinear(Module* parent, const std::string& name, int64_t in, int64_t out,
                           bool bias, double gain, bool centered, const Init& init)
    : Module(parent, name),
      centered_(centered),
      linear_(this, "linear", in, out, bias, init),
      scale_(this, "scale", out, gain, init.dtype) {}

std::string ScaledLinear::describe() const {
  return centered_ ? "Linear with LayerScale, multiplied in and centred" : "Linear with LayerScale";
}

Variable ScaledLinear::scaled_and_centred(const ParameterPtr& parameter) const {
  const Variable gain = use(scale_.gain()), raw = use(parameter);
  return center(mul(raw, raw.rank() == 2 ? reshape(gain, {gain.size(0), 1}) : gain), 0);
}

Variable ScaledLinear::forward(const Variable& x) {
  const ScopeGuard scope(name());
  if (!centered_) return scale_.forward(linear_.forward(x));
  const ParameterPtr &w = linear_.weight(), &b = linear_.bias(), &gain = scale_.gain();
  const Variable weight = weight_.get({w, gain}, [&] { return scaled_and_centred(w); });
  const Variable bias =
      b ? bias_.get({b, gain}, [&] { return scaled_and_centred(b); }) : Variable();
  return cbwc::linear(x, weight, bias);
}

}  // namespace cbwc
