// MODEL of the commands that look at a model (detect, fold) or start from one (train --init): the
// numbers and what made them, and the graph of one forward pass.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "autograd/analysis/graph.h"
#include "data/checkpoint.h"
#include "data/json.h"
#include "experiments/config.h"
#include "experiments/fold_plan.h"
#include "experiments/model_build.h"

namespace cbwc {

struct LoadedModel {
  Config config;    // model.vocab is the model's
  DataShape shape;  // what the model was built for
  std::unique_ptr<Model> model;
  std::string checkpoint_path;        // "": a config's fresh model, of its first seed
  nlohmann::json attributes;          // of the checkpoint; an empty object without
  std::vector<std::string> moments;   // the optimiser's tensors in the checkpoint, by name
  std::vector<std::string> warnings;  // damaged checkpoints that were passed over
  std::vector<FoldPlan> folds;        // what `cbwc fold` did to it, the first one first
  std::string folder;                 // of the run, or the Hugging Face folder; "": a config
  NamedTensors kept;                  // an imported model's weights that nothing here reads
  std::vector<std::string> notes;     // of a Hugging Face folder: HfDescription::notes
};

// A folder as Hugging Face writes it: config.json, and not a run's config.toml.
bool is_hf_folder(const std::string& path);

// `model`: a config file or the name of a shipped config; a run folder (its newest whole
// checkpoint); a folder of checkpoints of a run, or one file of it; a Hugging Face folder. Nothing
// there is changed. Error naming the tensor that is missing, unknown, of another shape or not
// finite, and when the run's config.toml does not say model.norm_eps (cases.md P25). `sets` as in
// load_config(), for a config only.
LoadedModel load_model(const std::string& model, const std::vector<std::string>& sets = {});

// A model to load weights into, all of them zero but the gains, with the structure of its folds.
std::unique_ptr<Model> empty_model(const Config& config, const DataShape& shape, DType dtype,
                                   const std::vector<FoldPlan>& folds = {});

// Norm by norm: is cbwc_rmsnorm's norm the same function as the layernorm arm's, in training with
// the config's dropout? From the detector. Norms that the arm leaves alone are not listed.
struct NormExactness {
  std::string norm;
  bool exact = false;
  std::string blocking, reason;  // the module that breaks it, and how; reason also when exact
};
std::vector<NormExactness> norm_exactness(const Config& config, const DataShape& shape);
nlohmann::json exactness_json(const std::vector<NormExactness>& norms);
std::vector<InexactPair> inexact_pairs(const Config& config, const DataShape& shape);

// The tensors of a checkpoint below a prefix ("model/"), by the rest of their names.
NamedTensors tensors_below(const Checkpoint& checkpoint, const std::string& prefix);

// One forward pass over the model's example, recorded; the logits are its output. With `training`
// dropout is on it.
Graph record_graph(Model& model, bool training);

}  // namespace cbwc
