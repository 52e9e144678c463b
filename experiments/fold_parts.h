// Steps that every kind of fold shares (fold.cpp, fold_hf.cpp).
#pragma once
#include "experiments/fold.h"
#include "experiments/model_graph.h"

namespace cbwc {

// Detects and plans: the report so far. Nothing of `loaded` is changed.
FoldReport start_fold(const FoldRequest& request, const LoadedModel& loaded);
std::unique_ptr<Model> copy_of(const Model& model, const Config& config, const DataShape& shape,
                               const std::vector<FoldPlan>& folds, DType dtype);
// Provenance, and what load_model() reads the folder with.
nlohmann::json checkpoint_attributes(const FoldReport& report, const LoadedModel& source);

}  // namespace cbwc
