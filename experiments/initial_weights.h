// Starting a run from trained weights (run.init): "continue learning" from any run or folded model.
#pragma once
#include <string>
#include <vector>

#include "experiments/config.h"
#include "experiments/model_build.h"

namespace cbwc {

// Loads the weights of `source` (a run, a checkpoint, a folded model) into the model of `config`.
// In the layernorm and cbwc_rmsnorm arms what a fold added is absorbed: the raw table is E + r 1^T,
// or the untied head's, and a writer writes the mean that it carried in a channel of its own, so
// that the run goes on as the model before the fold would with fresh moments. Returns notes on what
// will not be the same function. Error when the two are of another architecture, naming the key, a
// parameter does not fit, or an arm of RMSNorms alone has no place for something of the fold.
// `tokenizer`: tokenizer_id() of the run's data; weights trained with another one are an Error.
std::vector<std::string> load_initial_weights(Model& model, const Config& config,
                                              const std::string& source,
                                              const std::string& tokenizer = "");

// The same Error before there are any weights, for the model that run.pretrain is going to train;
// `name`: what the message calls it.
void check_initial_weights(const Config& config, const DataShape& shape, const Config& source,
                           const DataShape& source_shape, const std::string& name);

}  // namespace cbwc
