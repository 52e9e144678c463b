// A fold's record in the checkpoint of the folder that it wrote, from which the folder is read
// again: what a config cannot say of a model.
#pragma once
#include <vector>

#include "data/json.h"
#include "layers/folding.h"

namespace cbwc {

nlohmann::json plan_json(const FoldPlan& plan);
FoldPlan plan_from_json(const nlohmann::json& json);

// Of a checkpoint's attributes: every fold that made the model, the first one first. Empty for a
// model as it was trained. Error when the record is damaged.
std::vector<FoldPlan> folds_of(const nlohmann::json& attributes);

}  // namespace cbwc
