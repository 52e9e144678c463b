// The layouts of hf_tables.h, in both directions.
#pragma once
#include "core/tensor.h"
#include "data/safetensors.h"
#include "experiments/hf_tables.h"
#include "experiments/model_build.h"

namespace cbwc {

struct HfSizes {
  int64_t heads = 0, channels = 0, patch = 0;
};
HfSizes hf_sizes(const Config& config, const DataShape& shape);
const char* torch_name(StoredType type);     // "float16", for config.json
bool is_row_means(const std::string& name);  // a tied head's rank-one correction

// The shape that each of theirs has when ours has `ours`.
Shape hf_shape(const HfTensor& tensor, const Shape& ours, const HfSizes& sizes);
// Fills ours; every part has the shape above.
void from_hf(const HfTensor& tensor, const std::vector<Tensor>& theirs, const HfSizes& sizes,
             Tensor& ours);
std::vector<Tensor> to_hf(const HfTensor& tensor, const Tensor& ours, const HfSizes& sizes);

}  // namespace cbwc
