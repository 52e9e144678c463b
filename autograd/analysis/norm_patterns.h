// Finds LayerNorms written out in small ops (mean, sub, mul or pow, sqrt or rsqrt, div or mul) and
// puts a layer_norm node in their place, so that the detector sees them (cases.md P31).
#pragma once
#include <string>
#include <vector>

#include "autograd/analysis/graph.h"

namespace cbwc {

struct NormPattern {
  std::string name;  // of the last node that fitted; when matched, of the node that ends it
  bool matched = false;
  std::string reason;  // why not
};

// A new graph, and what was found: each candidate (a mean subtracted from its own input) with the
// reason where it was left as it was. Value numbers stay; values inside a match lose their producer
// and readers. The graph carries no tensors, so a scalar constant is a value without producer or
// parameter, and its number is an attribute of the node that reads it: pow's exponent in `value`,
// the eps that an add adds in `eps`.
Graph merge_norm_patterns(const Graph& graph, std::vector<NormPattern>& found);

}  // namespace cbwc
