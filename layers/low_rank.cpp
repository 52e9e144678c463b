#include "layers/low_rank.h"

#include <fmt/format.h>

#include "autograd/ops/elementwise.h"

namespace cbwc {

LowRankLinear::LowRankLinear(Module* parent, const std::string& name, const LowRankConfig& config,
                             bool centered, const Init& init)
    : Module(parent, name),
      config_(config),
      base_(make_linear(centered, this, "base", config.in, config.out, config.bias, init)),
      down_(this, "down", config.in, config.rank, false, init),
      up_(make_linear(centered, this, "up", config.rank, config.out, false,
                      Init{init.seed, init.dtype, 0.0})) {}

std::string LowRankLinear::describe() const {
  return fmt::format("LoRA {} -> {}, rank {}, alpha {}", config_.in, config_.out, config_.rank,
                     config_.alpha);
}

Variable LowRankLinear::forward(const Variable& x) {
  const ScopeGuard scope(name());
  const double factor = config_.alpha / static_cast<double>(config_.rank);
  const Variable base = base_->forward(x), side = up_->forward(down_.forward(x));
  return add(base, scale(side, factor));
}

void LowRankLinear::freeze_base() {
  base_->weight()->set_trainable(false);
  if (base_->bias()) base_->bias()->set_trainable(false);
}

}  // namespace cbwc
