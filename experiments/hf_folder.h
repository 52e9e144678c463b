// Writes a model as transformers reads it: config.json and model.safetensors. A folded one, which
// no class of transformers is, also gets modeling_note.json, load_folded.py, which patches a model
// of transformers accordingly, and a README.md.
#pragma once
#include "data/safetensors.h"
#include "experiments/model_graph.h"

namespace cbwc {

struct HfFolder {
  const Model* model = nullptr;
  Config config;  // of the model, or of what it was before the folds
  DataShape shape;
  nlohmann::json attributes;  // as a checkpoint's: "imported", "folded"; {} for none
  std::vector<FoldPlan> folds;
  NamedTensors kept;               // LoadedModel::kept
  std::optional<StoredType> type;  // of the weights; by default the model's own
  std::vector<std::pair<std::string, std::string>> reasons;  // FoldReport::reasons
  std::string files_from;  // folder whose input files are copied (hf_input_files.h); "": none
};
HfFolder hf_folder_of(const LoadedModel& loaded);
// Into the new folder `out`, all or nothing; the number of input files beside it. Error when
// transformers has no such model.
int write_hf_folder(const HfFolder& folder, const std::string& out);

// An unfolded one. `base`: see write_hf_config().
void export_model(const Model& model, const Config& config, const DataShape& shape,
                  const nlohmann::json& base, const std::string& out,
                  std::optional<StoredType> type = {});

}  // namespace cbwc
