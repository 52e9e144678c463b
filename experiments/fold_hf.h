// cbwc fold of a Hugging Face folder: folded in float64, rounded once to the type of the weights,
// written in that form with what is needed to run it (hf_folder.h).
#pragma once
#include "experiments/fold.h"

namespace cbwc {

FoldReport run_fold_hf(const FoldRequest& request);

}  // namespace cbwc
