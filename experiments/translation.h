// Translating with a trained encoder-decoder, and its BLEU against the data's own translations.
#pragma once
#include "experiments/bleu.h"
#include "experiments/training_data.h"

namespace cbwc {

// `samples` sentences of data.eval (0: all), spread evenly over it, in order. Error when the model
// or the data is not one of translation.
std::vector<std::string> translate_split(Model& model, const TrainingData& data,
                                         const Config& config, int64_t samples);
BleuScore translation_bleu(Model& model, const TrainingData& data, const Config& config,
                           int64_t samples);
std::string translate_text(Model& model, const TrainingData& data, const Config& config,
                           const std::string& text);

}  // namespace cbwc
