// The run folder of a model that was not trained there: what an import or a fold leaves. Read again
// by load_model() (model_graph.h).
#pragma once
#include <optional>
#include <string>

#include "data/json.h"
#include "experiments/config.h"
#include "experiments/run_text.h"
#include "layers/model.h"

namespace cbwc {

struct ModelFolder {
  const Config& config;
  const Model& model;
  const NamedTensors& kept;   // LoadedModel::kept
  nlohmann::json attributes;  // of the checkpoint; its "step" too
  std::optional<RunText> text;
  std::string files_from;  // folder of the model, whose input files are kept; "": none
};
// Into the new folder `out`, all or nothing.
void write_model_folder(const ModelFolder& folder, const std::string& out);

}  // namespace cbwc
