// preprocessor_config.json of an image model's folder: how transformers makes pixels the model's
// input. Resizing is not read from it: images are resized as in training (ImageSamples).
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "experiments/training_data.h"

namespace cbwc {

constexpr const char* kPreprocessorFile = "preprocessor_config.json";

// The folder's file; null where there is none.
nlohmann::json read_preprocessor(const std::string& folder);
// mean and deviation of each of `channels`, for pixels of 0 to 1: image_mean, image_std,
// rescale_factor, do_rescale and do_normalize. Error naming the entry; `file`: for messages.
void read_normalisation(const nlohmann::json& preprocessor, const std::string& file,
                        int64_t channels, InputRules& rules);

}  // namespace cbwc
