#include "layers/mlp.h"

#include <fmt/format.h>

namespace cbwc {

Mlp::Mlp(Module* parent, const std::string& name, int64_t dim, int64_t hidden, Gelu gelu,
         const Init& init, const Init& output_init, const BranchOptions& branch)
    : Module(parent, name),
      dim_(dim),
      hidden_(hidden),
      gelu_(gelu),
      up_(this, "up", dim, hidden, true, init),
      down_(this, "down", hidden, dim, output_init, branch) {}

std::string Mlp::describe() const {
  return fmt::format("MLP {} -> {} -> {}, GELU {}", dim_, hidden_, dim_,
                     gelu_ == Gelu::tanh ? "tanh" : "erf");
}

Variable Mlp::forward(const Variable& x, const Context& context) {
  const ScopeGuard scope(name());
  return down_.forward(gelu(up_.forward(x), gelu_), context);
}

}  // namespace cbwc
