// cbwc fold: detect, plan, apply, verify, and only then write a folder like a run's.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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
};

// The model before against the one after, on one set of inputs.
struct Verification {
  std::string input, dtype;
  int64_t positions = 0;
  double max_abs = 0;           // over all logits
  double max_rel = 0;           // max_abs over the largest logit before; infinite for a NaN
  double argmax_agreement = 0;  // part of the positions with the same likeliest answer
  bool passed = false;
};
Verification compare_logits(Model& before, Model& after, const ModelInput& values,
                            const std::string& input, double tolerance);

struct FoldReport {
  Config source, folded;  // configs
  std::string model, checkpoint, out;
  DataShape shape;  // what the model was built for
  FoldPlan plan;    // empty: nothing to fold, nothing written
  std::string dtype;
  int64_t norms = 0;        // LayerNorms in the model
  int64_t extra_bytes = 0;  // parameters after minus before
  int64_t dropped_moments = 0;
  double fold_ms = 0;  // applying the plan, beside reading, verifying and writing
  std::vector<Verification> verifications;
  std::vector<std::string> notes;
  bool failed = false;  // the verification: nothing was written
};

// Error for bad input; a failed verification is reported.
FoldReport run_fold(const FoldRequest& request);

std::string fold_text(const FoldReport& report);
nlohmann::json fold_json(const FoldReport& report);  // `results` of cli.md

}  // namespace cbwc
