// cbwc fold: detect, plan, apply, verify, and only then write a folder: like a run's, or of a model
// in a Hugging Face folder another one of that form.
#pragma once
#include <string>
#include <vector>

#include "data/json.h"
#include "data/safetensors.h"
#include "experiments/fold_check.h"
#include "experiments/model_graph.h"
#include "layers/folding.h"

namespace cbwc {

struct FoldRequest {
  std::string model, out;  // MODEL as in load_model(); a folder that is not there yet
  std::vector<std::string> sets;
  FoldOptions options;
  bool affine = false;      // also fold gains and biases into their readers
  bool carry_mean = false;  // fold more norms by carrying means where that pays (method.md 5)
  // Largest difference that passes, as Verification::max_rel.
  double tolerance64 = 1e-10, tolerance32 = 1e-4;
  // Of a Hugging Face folder only. What to verify on, as real_input(); the type of the weights that
  // are written, by default that of those read; options as import_model().
  std::string text = {}, images = {};
  std::optional<StoredType> type = {};
  std::vector<std::string> allowed = {};
};

// Weights of half precision, before against after, both computed in float32; beside it what
// rounding to that type does to the logits with nothing folded.
struct HalfError {
  Verification fold, rounding;  // dtype: of the weights
  std::string rounding_of;      // which float32 model was rounded
};

struct FoldReport {
  Config source, folded;  // configs
  std::string model, checkpoint, out;
  DataShape shape;          // what the model was built for
  FoldPlan plan;            // empty: nothing to fold, nothing written
  std::string dtype;        // of the folded weights: "float64", "float16"
  int64_t norms = 0;        // LayerNorms in the model
  int64_t extra_bytes = 0;  // parameters after minus before
  int64_t dropped_moments = 0;
  double fold_ms = 0;  // applying the plan, beside reading, verifying and writing
  std::vector<Verification> verifications;
  std::vector<std::string> notes;
  bool failed = false;  // the verification: nothing was written
  std::vector<std::pair<std::string, std::string>> reasons = {};  // every norm: why it folds or not
  std::string stored = {};  // of a Hugging Face folder: the type written, "F16"
  std::vector<HalfError> half = {};
};

// Error for bad input; a failed verification is reported.
FoldReport run_fold(const FoldRequest& request);

std::string fold_text(const FoldReport& report);
nlohmann::json fold_json(const FoldReport& report);  // `results` of cli.md
nlohmann::json half_json(const std::vector<HalfError>& half);

}  // namespace cbwc
