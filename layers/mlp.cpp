#include "layers/mlp.h"

#include <fmt/format.h>

#include <limits>

namespace cbwc {

int64_t mlp_width(double ratio, int64_t dim) {
  const double width = ratio * static_cast<double>(dim);
  return static_cast<int64_t>(width * (1 + 4 * std::numeric_limits<double>::epsilon()));
}
namespace {

const char* label(Activation activation) {
  switch (activation) {
    case Activation::gelu_erf:
      return "GELU erf";
    case Activation::gelu_tanh:
      return "GELU tanh";
    case Activation::relu:
      return "ReLU";
    case Activation::silu:
      return "SiLU";
    case Activation::tanh:
      return "tanh";
    default:
      return "sigmoid";
  }
}

}  // namespace

Mlp::Mlp(Module* parent, const std::string& name, int64_t dim, int64_t hidden,
         Activation activation, const Init& init, const Init& output_init,
         const BranchOptions& branch)
    : Module(parent, name),
      dim_(dim),
      hidden_(hidden),
      activation_(activation),
      up_(this, "up", dim, hidden, true, init),
      down_(this, "down", hidden, dim, output_init, branch) {}

std::string Mlp::describe() const {
  return fmt::format("MLP {} -> {} -> {}, {}", dim_, hidden_, dim_, label(activation_));
}

Variable Mlp::forward(const Variable& x, const Context& context) {
  const ScopeGuard scope(name());
  return down_.forward(activate(up_.forward(x), activation_), context);
}

}  // namespace cbwc
