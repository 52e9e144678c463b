// The sizes that config.json names and where they stand in a file's shapes. Every other shape of a
// model follows from them, so that a model whose sizes fit is no larger than its file: what does
// not fit is found before memory is taken for it.
#pragma once
#include <string>
#include <vector>

#include "experiments/config.h"
#include "experiments/model_build.h"

namespace cbwc {

struct HfExtent {
  std::string key, value;  // "vocab_size", "50257"
  std::string tensor;      // theirs
  size_t axis = 0;
  int64_t extent = 0;  // that the tensor must have there
};
std::vector<HfExtent> hf_extents(const Config& config, const DataShape& shape);

// Error when a file of `tensors` tensors cannot hold so many layers.
void check_layer_count(const Config& config, int64_t tensors);

}  // namespace cbwc
