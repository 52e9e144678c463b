// From a Config to its model, whatever the family, and from a batch to what a model reads.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/data_split.h"
#include "data/json.h"
#include "experiments/config.h"
#include "layers/model.h"

namespace cbwc {

struct GptConfig;

// What a model has to know of its data. Zeros where the data says nothing; the config's own
// model.vocab and model.classes come first where they are set.
struct DataShape {
  int64_t vocab = 0, target_vocab = 0;  // of the source or only text; of a translation
  int64_t classes = 0, channels = 3;
};
nlohmann::json shape_json(const DataShape& shape);
DataShape shape_from_json(const nlohmann::json& json);

enum class Task {
  language_model,
  masked_language_model,
  classification,
  translation,
  hidden_states
};
Task task_of(const Config& config);
bool reads_images(const Config& config);
const char* target_unit(const Config& config);  // what a rate counts: images, texts, tokens
bool is_baseline(const std::string& family);
// How a run is called in tables: its norm, or the name of the simple model that it trains.
std::string arm_of(const Config& config);

// All arms of a seed get the same numbers. Error when sizes do not fit together.
std::unique_ptr<Model> build_model(const Config& config, const DataShape& shape, uint64_t seed);
GptConfig gpt_config(const Config& config, int64_t data_vocab);

ModelInput input_of(const Batch& batch);
ModelTargets targets_of(const Batch& batch);

}  // namespace cbwc
