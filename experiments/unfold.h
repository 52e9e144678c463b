// Back from a folded model to one with LayerNorms and the same function.
#pragma once

#include "data/json.h"
#include "experiments/model_graph.h"

namespace cbwc {

// The config as the model was trained. `attributes`: of its checkpoint or note, folded or not.
Config trained_config(const Config& config, const nlohmann::json& attributes);

// A fold's values as a model without what the fold added would hold them, `fresh` being its own: a
// head that is tied again, and writers that write their means again.
void absorb_fold(const FoldPlan& plan, const NamedTensors& fresh, NamedTensors& values);

// The model that was folded. What centring took from its other writers is not there again, and no
// LayerNorm sees it.
LoadedModel unfolded(const LoadedModel& folded);

}  // namespace cbwc
