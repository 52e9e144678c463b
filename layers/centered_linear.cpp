#include "layers/centered_linear.h"

#include <fmt/format.h>

#include "autograd/ops/center.h"

namespace cbwc {

Variable CenteredParameter::get(const ParameterPtr& parameter, int axis) {
  Tape* tape = Tape::current();
  const uint64_t serial = tape == nullptr ? 0 : tape->serial();
  const bool fresh = value_.defined() && version_ == parameter->version();
  if (fresh && tape != nullptr && variable_.defined() && tape_serial_ == serial) return variable_;
  if (!fresh) {
    variable_ = {};
    value_ = {};  // before the new one is made: two copies of every weight would count
    value_ = center(parameter->value(), axis);
    version_ = parameter->version();
    ++computed_;
  }
  Variable out = center(use(parameter), axis, value_);
  if (tape != nullptr) {
    variable_ = out;
    tape_serial_ = serial;
  }
  return out;
}

std::string CenteredLinear::describe() const { return "centred " + Linear::describe(); }

// Weight (out, in): the mean over the OUTPUTS, axis 0, leaves.
Variable CenteredLinear::effective_weight() { return centered_weight_.get(weight_, 0); }

Variable CenteredLinear::effective_bias() {
  return bias_ ? centered_bias_.get(bias_, 0) : Variable();
}

}  // namespace cbwc
