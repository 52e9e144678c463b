// One random small use of each op that the zero-mean table has a row for: for tests that measure
// what the rules claim.
#pragma once
#include "autograd/analysis/graph.h"
#include "autograd/gradient_check.h"
#include "core/rng.h"

namespace cbwc::testing {

struct OpTrial {
  std::vector<Tensor> inputs;  // float64, distinct; one may be used twice
  TensorFunction run;          // records this one op; the same values when called again
  int parameter = -1;          // an input that is recorded as a Parameter's value
};

std::vector<std::string> ops_with_trials();
OpTrial random_trial(const std::string& op, Rng& rng);

struct RecordedTrial {
  Graph graph;              // of one node
  std::vector<int> values;  // the graph's value of each input
  Tensor output;
};
RecordedTrial record_trial(const OpTrial& trial, const std::vector<Tensor>& inputs);

}  // namespace cbwc::testing
