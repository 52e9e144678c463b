// What a fold is verified with: two models' logits on the same input, random and real.
#pragma once
#include <string>
#include <vector>

#include "data/json.h"
#include "experiments/model_build.h"

namespace cbwc {

// The model before against the one after, on one set of inputs.
struct Verification {
  std::string input, dtype;
  int64_t positions = 0;
  double max_abs = 0;           // over all logits; infinite for a NaN
  double max_rel = 0;           // max_abs over the largest logit before; infinite for a NaN
  double argmax_agreement = 0;  // part of the positions with the same likeliest answer
  bool passed = false;
};
Verification compare_logits(Model& before, Model& after, const ModelInput& values,
                            const std::string& input, double tolerance);
nlohmann::json verification_json(const Verification& verification);
nlohmann::json verifications_json(const std::vector<Verification>& all);

struct FoldInput {
  std::string name;  // for the report: where it comes from
  ModelInput values;
};
// A few hundred positions, or two images, of random input: enough to see any mistake in the fold,
// which touches every position, and little beside reading a model.
FoldInput random_input(const Config& config, const DataShape& shape);
// The same of a run's own data. Error when there are none.
FoldInput data_input(const Config& config, const DataShape& shape);

// Of a model in a Hugging Face folder, or imported from one: texts of the file `text` ("":
// WordNet's glosses) by the folder's tokenizer, or images of the image file `images` ("":
// Fashion-MNIST), whatever the model was trained on. Error when they are not there.
FoldInput real_input(const Config& config, const DataShape& shape, const std::string& folder,
                     const std::string& text, const std::string& images);

}  // namespace cbwc
