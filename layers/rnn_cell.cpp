#include "layers/rnn_cell.h"

#include <fmt/format.h>

#include "autograd/ops/activation.h"
#include "autograd/ops/elementwise.h"

namespace cbwc {

RnnCell::RnnCell(Module* parent, const std::string& name, const CellConfig& config,
                 const Init& init)
    : Module(parent, name), config_(config) {
  const bool centered = centres_writers(config.norm);
  x_ = make_linear(centered, this, "x", config.in, config.hidden, true, init);
  h_ = make_linear(centered, this, "h", config.hidden, config.hidden, false, init);
  norm_ = make_norm(this, "norm", config.norm, config.hidden, config.norm_eps, config.norm_bias,
                    init.dtype);
}

std::string RnnCell::describe() const {
  return fmt::format("RNN cell {} -> {}, {}", config_.in, config_.hidden, norm_name(config_.norm));
}

Variable RnnCell::forward(const Variable& x, const Variable& h, const Context& context) {
  const ScopeGuard scope(name());
  const Variable from_x = x_->forward(x), from_h = h_->forward(h);
  return tanh(norm_->forward(add(from_x, from_h), context));
}

}  // namespace cbwc
