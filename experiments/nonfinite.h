// Where the first non-finite number comes from.
#pragma once
#include <string>
#include <vector>

#include "autograd/parameter.h"
#include "core/rng.h"
#include "data/data_split.h"
#include "layers/model.h"

namespace cbwc {

// Runs the window again from the same random state and names the first module and op whose output,
// or on the way back whose gradient, is not finite, e.g. "blocks.1.mlp (gelu, forward)". Overwrites
// the gradients and leaves them cleared.
std::string find_nonfinite(Model& model, const std::vector<Batch>& window, Rng rng);

}  // namespace cbwc
