// A Hugging Face model folder (config.json, model.safetensors or its shards) <-> a folder like a
// run's, which detect, fold, generate and the others read.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "experiments/hf_config.h"
#include "experiments/run_text.h"

namespace cbwc {

struct HfImport {
  HfDescription description;  // config.model.dtype: float64 when all weights are F64
  std::unique_ptr<Model> model;
  nlohmann::json config_json;      // the file, as it was
  std::string stored;              // types in the file: "F32", "F16"
  std::vector<std::string> notes;  // what was not read, and why
  int64_t tensors = 0, parameters = 0;
};
// Error in one line: an option that is not known or would change the function; every tensor that
// is missing, not known, of another shape, or not finite.
HfImport import_model(const std::string& folder, const std::vector<std::string>& allowed = {});
nlohmann::json import_attributes(const HfImport& model, const std::string& source);
// `out`: a new folder with config.toml, a checkpoint, and the tokenizer where there is one that is
// known. Returns notes: why there is none.
std::vector<std::string> save_import(const HfImport& model, const std::string& source,
                                     const std::string& out);

// Writes config.json and model.safetensors into the new folder `out`. `type`: of the weights; by
// default the model's own. `base`: see write_hf_config().
void export_model(const Model& model, const Config& config, const DataShape& shape,
                  const nlohmann::json& base, const std::string& out,
                  std::optional<StoredType> type = {});

}  // namespace cbwc
