#include "autograd/ops/dropout.h"

#include <fmt/format.h>

#include "layers/choices.h"
#include "layers/drop_path.h"
#include "layers/dropout.h"

namespace cbwc {
namespace {

constexpr Choices<DropoutPlacement, 4> kPlacements = {
    {{"element", DropoutPlacement::element},
     {"before_projection", DropoutPlacement::before_projection},
     {"path", DropoutPlacement::path},
     {"centred", DropoutPlacement::centred}}};

}  // namespace

DropoutPlacement parse_dropout_placement(const std::string& name) {
  return parse_choice(kPlacements, name, "dropout_placement");
}
const char* dropout_placement_name(DropoutPlacement placement) {
  return choice_name(kPlacements, placement);
}

Dropout::Dropout(Module* parent, const std::string& name, double p) : Module(parent, name), p_(p) {
  CBWC_CHECK(p >= 0 && p < 1, path(), ": dropout must lie in [0, 1), got ", p);
}

Rng* Dropout::active(const Context& context) const {
  if (!context.training || p_ == 0) return nullptr;
  CBWC_CHECK(context.rng != nullptr, path(), ": dropout in training needs a random stream");
  return context.rng;
}

std::string Dropout::describe() const { return fmt::format("Dropout {}", p_); }
std::string TokenDropout::describe() const { return fmt::format("Dropout {} per token", p()); }
std::string DropPath::describe() const { return fmt::format("DropPath {}", p()); }

Variable Dropout::forward(const Variable& x, const Context& context) {
  Rng* rng = active(context);
  const ScopeGuard scope(name());
  return rng == nullptr ? x : dropout(x, p_, *rng);
}

Variable TokenDropout::forward(const Variable& x, const Context& context) {
  Rng* rng = active(context);
  const ScopeGuard scope(name());
  return rng == nullptr ? x : token_dropout(x, p(), *rng);
}

Variable DropPath::forward(const Variable& x, const Context& context) {
  Rng* rng = active(context);
  const ScopeGuard scope(name());
  return rng == nullptr ? x : drop_path(x, p(), *rng);
}

}  // namespace cbwc
