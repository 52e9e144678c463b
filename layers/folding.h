// Folding LayerNorm into RMSNorm exactly (method.md 5): what the detector found is applied to the
// numbers of a model. Order: settle the tie, carry eps, multiply LayerScales in, centre every
// writer (in float64, rounded once), switch the norms. Everything outside `model` is untouched.
#pragma once
#include <string>
#include <vector>

#include "autograd/analysis/detector.h"
#include "layers/module.h"

namespace cbwc {

enum class TiedHead { rank_one, untie, runtime };
TiedHead parse_tied_head(const std::string& name);
const char* tied_head_name(TiedHead tied);

struct FoldOptions {
  TiedHead tied = TiedHead::rank_one;
  bool auxiliary_centring = false;
};

// What will be, or was, done to a model; written into the checkpoint's provenance.
struct FoldPlan {
  std::vector<std::string> norms;  // modules that become RMSNorm
  std::vector<CentredParameter> centre;
  std::vector<std::string> auxiliary;  // modules whose output is centred at run time
  std::vector<Tie> ties;
  TiedHead tied = TiedHead::rank_one;
  std::vector<std::string> changed_parameters() const;  // whose optimiser moments are void
};

FoldPlan plan_fold(const Detection& detection, const FoldOptions& options);

// Applies the plan. Error, with the model unchanged, when a module or parameter of the plan is not
// there, is of another kind, or holds a number that is not finite.
void apply_fold(Module& model, const FoldPlan& plan);

}  // namespace cbwc
