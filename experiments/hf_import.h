// A Hugging Face model folder (config.json, model.safetensors or its shards) -> a model in memory,
// or a folder like a run's. A folded one with modeling_note.json gives the folded model.
#pragma once
#include <string>
#include <vector>

#include "data/json.h"
#include "data/safetensors.h"
#include "experiments/hf_config.h"
#include "experiments/run_text.h"

namespace cbwc {

struct HfImport {
  HfDescription description;  // config.model.dtype: float64 when any weight is F64
  std::unique_ptr<Model> model;
  nlohmann::json config_json;      // the file, without what was passed over
  std::string stored;              // types in the file: "F32", "F16"
  std::vector<std::string> notes;  // what was not read, and why
  int64_t tensors = 0, parameters = 0;
  NamedTensors kept = {};            // weights that this model does not read, by their names
  std::vector<FoldPlan> folds = {};  // of modeling_note.json
  nlohmann::json folded = {};        // its record; null: not folded
  nlohmann::json preprocessor = {};  // preprocessor_config.json of an image model; null: none
};
// Error in one line: an option that is not known or would change the function; every tensor that
// is missing, not known, of another shape, or not finite; a note that contradicts itself.
HfImport import_model(const std::string& folder, const std::vector<std::string>& allowed = {});
// `out`: a new folder with config.toml, a checkpoint, the tokenizer where there is one that is
// known, and the files that export gives back (hf_input_files.h). Returns notes: why there is none.
std::vector<std::string> save_import(const HfImport& model, const std::string& source,
                                     const std::string& out);
// What load_model() would give for that folder, without writing it.
LoadedModel loaded_import(HfImport model, const std::string& source);

}  // namespace cbwc
