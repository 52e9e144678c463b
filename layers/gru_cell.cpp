#include "layers/gru_cell.h"

#include <fmt/format.h>

#include "autograd/ops/activation.h"
#include "autograd/ops/center.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"

namespace cbwc {
namespace {

constexpr int64_t kGates = 3;

int64_t centred_gates(Norm norm, GruForm form) {
  if (!centres_writers(norm)) return 0;
  return form == GruForm::separate ? kGates : kGates - 1;
}

}  // namespace

GateLinear::GateLinear(Module* parent, const std::string& name, int64_t in, int64_t hidden,
                       int64_t gates, int64_t centered, const Init& init)
    : Linear(parent, name, in, gates * hidden, true, init), hidden_(hidden), centered_(centered) {}

std::string GateLinear::describe() const {
  const std::string plain = Linear::describe();
  return centered_ == 0 ? plain : fmt::format("{}, {} gates centred", plain, centered_);
}

// (gates hidden, ...) seen as (gates, hidden, ...): the mean over each gate's own outputs leaves.
Variable GateLinear::centre_gates(const ParameterPtr& parameter) const {
  const Variable all = use(parameter);
  const int64_t rows = centered_ * hidden_;
  Shape stacked = {centered_, hidden_}, flat = {rows};
  for (int i = 1; i < all.rank(); ++i) {
    stacked.push_back(all.size(i));
    flat.push_back(all.size(i));
  }
  const Variable front = rows == all.size(0) ? all : slice(all, 0, 0, rows);
  const Variable centred = reshape(center(reshape(front, stacked), 1), flat);
  if (rows == all.size(0)) return centred;
  return concat({centred, slice(all, 0, rows, all.size(0))}, 0);
}

Variable GateLinear::effective_weight() {
  if (centered_ == 0) return Linear::effective_weight();
  return gate_weight_.get({weight_}, [this] { return centre_gates(weight_); });
}

Variable GateLinear::effective_bias() {
  if (centered_ == 0) return Linear::effective_bias();
  return gate_bias_.get({bias_}, [this] { return centre_gates(bias_); });
}

GruCell::GruCell(Module* parent, const std::string& name, const CellConfig& config, GruForm form,
                 const Init& init)
    : Module(parent, name),
      config_(config),
      form_(form),
      x_(this, "x", config.in, config.hidden, kGates, centred_gates(config.norm, form), init),
      h_(this, "h", config.hidden, config.hidden, kGates, centred_gates(config.norm, form), init) {
  const auto make = [&](const char* label, Norm norm) {
    return make_norm(this, label, norm, config.hidden, config.norm_eps, config.norm_bias,
                     init.dtype);
  };
  norm_r_ = make("norm_r", config.norm);
  norm_z_ = make("norm_z", config.norm);
  if (form == GruForm::separate) {
    norm_x_ = make("norm_x", config.norm);
    norm_h_ = make("norm_h", config.norm);
  } else {
    norm_n_ = make("norm_n", centres_writers(config.norm) ? Norm::layernorm : config.norm);
  }
}

std::string GruCell::describe() const {
  return fmt::format("GRU cell {} -> {}, {}, candidate's norm {}", config_.in, config_.hidden,
                     norm_name(config_.norm),
                     form_ == GruForm::separate ? "on each part" : "on the gated sum");
}

Variable GruCell::forward(const Variable& x, const Variable& h, const Context& context) {
  const ScopeGuard scope(name());
  const Variable from_x = x_.forward(x), from_h = h_.forward(h);
  const auto gate = [&](const Variable& all, int64_t i) {
    return slice(all, -1, i * config_.hidden, (i + 1) * config_.hidden);
  };
  const auto opening = [&](int64_t i, NormLayer& norm) {
    const Variable x_part = gate(from_x, i), h_part = gate(from_h, i);
    return sigmoid(norm.forward(add(x_part, h_part), context));
  };
  const Variable r = opening(0, *norm_r_), z = opening(1, *norm_z_);
  Variable x_part = gate(from_x, 2), h_part = gate(from_h, 2), n;
  if (form_ == GruForm::separate) {
    x_part = norm_x_->forward(x_part, context);
    h_part = norm_h_->forward(h_part, context);
    n = tanh(add(x_part, mul(r, h_part)));
  } else {
    n = tanh(norm_n_->forward(add(x_part, mul(r, h_part)), context));
  }
  return add(n, mul(z, sub(h, n)));
}

}  // namespace cbwc
