#include "optim/sgd.h"

#include <cmath>

#include "core/kernels/adamw.h"

namespace cbwc {

Sgd::Sgd(FlatParameters& parameters, SgdOptions options)
    : parameters_(parameters), options_(options) {
  CBWC_CHECK(0 <= options.momentum && options.momentum < 1, "sgd: momentum must be in [0, 1), got ",
             options.momentum);
  CBWC_CHECK(!options.nesterov || options.momentum > 0, "sgd: nesterov needs momentum");
  CBWC_CHECK(options.weight_decay >= 0, "sgd: negative weight decay ", options.weight_decay);
  if (options.momentum > 0) b_ = zero_state(parameters);
}

void Sgd::step(double lr, double grad_scale) {
  CBWC_CHECK(std::isfinite(lr) && std::isfinite(grad_scale), "sgd: lr ", lr, ", gradient scale ",
             grad_scale);
  parameters_.fill_missing_grads();
  ++steps_;
  Tensor &values = parameters_.values(), &grads = parameters_.grads();
  dispatch_float(values.dtype(), "sgd", [&](auto zero) {
    using T = decltype(zero);
    for (const UpdateRange& range : update_ranges(parameters_)) {
      sgd_update(values.device(),
                 SgdUpdate<T>{.p = values.data<T>() + range.begin,
                              .grad = grads.data<T>() + range.begin,
                              .b = b_.defined() ? b_.data<T>() + range.begin : nullptr,
                              .n = range.end - range.begin,
                              .lr = lr,
                              .momentum = options_.momentum,
                              .decay = range.decay ? options_.weight_decay : 0.0,
                              .grad_scale = grad_scale,
                              .nesterov = options_.nesterov});
    }
  });
  parameters_.mark_updated();
}

NamedTensors Sgd::momentum_by_name() const {
  return b_.defined() ? split_state(parameters_, b_) : NamedTensors{};
}

void Sgd::load(int64_t steps, const NamedTensors& momentum) {
  CBWC_CHECK(steps >= 0, "sgd: negative step count ", steps);
  CBWC_CHECK(b_.defined() || momentum.empty(), "sgd: momentum state for an optimiser without it");
  if (b_.defined()) load_state(parameters_, b_, momentum, "sgd momentum");
  steps_ = steps;
}

}  // namespace cbwc
