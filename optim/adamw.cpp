#include "optim/adamw.h"

#include <cmath>

#include "core/kernels/adamw.h"

namespace cbwc {

AdamW::AdamW(FlatParameters& parameters, AdamWOptions options)
    : parameters_(parameters),
      options_(options),
      m_(zero_state(parameters)),
      v_(zero_state(parameters)) {
  CBWC_CHECK(0 <= options.beta1 && options.beta1 < 1 && 0 <= options.beta2 && options.beta2 < 1,
             "adamw: betas must be in [0, 1), got ", options.beta1, " and ", options.beta2);
  CBWC_CHECK(options.eps > 0, "adamw: eps must be positive, got ", options.eps);
  CBWC_CHECK(options.weight_decay >= 0, "adamw: negative weight decay ", options.weight_decay);
}

void AdamW::step(double lr, double grad_scale) {
  CBWC_CHECK(std::isfinite(lr) && std::isfinite(grad_scale), "adamw: lr ", lr, ", gradient scale ",
             grad_scale);
  parameters_.fill_missing_grads();
  ++steps_;
  const double step = static_cast<double>(steps_);
  Tensor &values = parameters_.values(), &grads = parameters_.grads();
  dispatch_float(values.dtype(), "adamw", [&](auto zero) {
    using T = decltype(zero);
    for (const UpdateRange& range : update_ranges(parameters_)) {
      adamw_update(values.device(),
                   AdamWUpdate<T>{.p = values.data<T>() + range.begin,
                                  .grad = grads.data<T>() + range.begin,
                                  .m = m_.data<T>() + range.begin,
                                  .v = v_.data<T>() + range.begin,
                                  .n = range.end - range.begin,
                                  .lr = lr,
                                  .beta1 = options_.beta1,
                                  .beta2 = options_.beta2,
                                  .eps = options_.eps,
                                  .decay = range.decay ? options_.weight_decay : 0.0,
                                  .grad_scale = grad_scale,
                                  .correction1 = 1.0 - std::pow(options_.beta1, step),
                                  .correction2 = 1.0 - std::pow(options_.beta2, step)});
    }
  });
  parameters_.mark_updated();
}

void AdamW::set_steps(int64_t steps) {
  CBWC_CHECK(steps >= 0, "adamw: negative step count ", steps);
  steps_ = steps;
}

void AdamW::load(int64_t steps, const NamedTensors& m, const NamedTensors& v) {
  Tensor new_m = zero_state(parameters_), new_v = zero_state(parameters_);
  load_state(parameters_, new_m, m, "adamw m");
  load_state(parameters_, new_v, v, "adamw v");
  set_steps(steps);
  m_ = new_m;
  v_ = new_v;
}

}  // namespace cbwc
