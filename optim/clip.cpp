#include "optim/clip.h"

#include <cmath>

#include "core/kernels/adamw.h"

namespace cbwc {

ClipResult gradient_norm(FlatParameters& parameters, double unit_scale, double max_norm) {
  parameters.fill_missing_grads();
  Tensor& grads = parameters.grads();
  const double squares = dispatch_float(grads.dtype(), "gradient_norm", [&](auto zero) {
    using T = decltype(zero);
    return sum_of_squares(grads.device(), grads.data<T>(), grads.numel());
  });
  ClipResult out;
  out.norm = std::abs(unit_scale) * std::sqrt(squares);
  out.finite = std::isfinite(out.norm);
  if (!out.finite) {
    out.scale = 0;
  } else {
    const bool clips = max_norm > 0 && out.norm > max_norm;
    out.scale = clips ? unit_scale * (max_norm / out.norm) : unit_scale;
  }
  return out;
}

double window_scale(int64_t count) { return count > 0 ? 1.0 / static_cast<double>(count) : 0.0; }

}  // namespace cbwc
