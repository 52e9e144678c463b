// The global norm of all gradients and the factor that clips it. Clip once per step, on the summed
// gradients of the whole accumulation window (cases.md P57).
#pragma once
#include "autograd/parameter.h"

namespace cbwc {

struct ClipResult {
  double norm = 0;     // of unit_scale * gradients, before clipping
  double scale = 1;    // what step() must multiply the gradients with: unit_scale, clipped
  bool finite = true;  // false: refuse the step and count it; scale is 0
};

// Gradients are sums over tokens: unit_scale = 1 / tokens of the window makes them a mean, whatever
// the sizes of its micro-batches. max_norm <= 0 measures without clipping.
ClipResult gradient_norm(FlatParameters& parameters, double unit_scale = 1.0,
                         double max_norm = 0.0);

// 1 / count; 0 for an empty window, which is no step.
double window_scale(int64_t count);

}  // namespace cbwc
