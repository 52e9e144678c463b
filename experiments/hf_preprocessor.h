// preprocessor_config.json of an image model's folder: how transformers makes pixels the model's
// input.
#pragma once
#include <string>

#include "data/json.h"
#include "experiments/training_data.h"

namespace cbwc {

constexpr const char* kPreprocessorFile = "preprocessor_config.json";

// The folder's file; null where there is none.
nlohmann::json read_preprocessor(const std::string& folder);
// For a model that reads `image` x `image` pixels of rules.channels. Mean and deviation for pixels
// of 0 to 1: image_mean, image_std, rescale_factor, do_rescale, do_normalize. The sizing: size,
// resample, do_resize, do_center_crop, crop_size. Error naming the entry; `file`: for messages.
void read_image_rules(const nlohmann::json& preprocessor, const std::string& file, int64_t image,
                      InputRules& rules);

}  // namespace cbwc
