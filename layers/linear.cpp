#include "layers/linear.h"

#include <fmt/format.h>

#include "autograd/ops/linear.h"
#include "layers/carried_mean.h"
#include "layers/centered_linear.h"

namespace cbwc {

Linear::Linear(Module* parent, const std::string& name, int64_t in, int64_t out, bool bias,
               const Init& init)
    : Module(parent, name) {
  CBWC_CHECK(in > 0 && out > 0, path(), ": a linear layer needs positive sizes, got ", in, " -> ",
             out);
  weight_ = add_parameter("weight", {out, in}, Role::weight, init);
  if (bias) bias_ = add_constant_parameter("bias", {out}, Role::bias, 0.0, init.dtype);
}

std::string Linear::describe() const {
  return fmt::format("Linear {} -> {}", weight_->value().size(1), weight_->value().size(0));
}

Variable Linear::forward(const Variable& x) {
  const ScopeGuard scope(name());
  const Variable in = restore_input_ ? with_mean(x) : x;
  const Variable weight = effective_weight(), bias = effective_bias();
  return linear(in, weight, bias);
}

std::unique_ptr<Linear> make_linear(bool centered, Module* parent, const std::string& name,
                                    int64_t in, int64_t out, bool bias, const Init& init) {
  if (centered) return std::make_unique<CenteredLinear>(parent, name, in, out, bias, init);
  return std::make_unique<Linear>(parent, name, in, out, bias, init);
}

}  // namespace cbwc
