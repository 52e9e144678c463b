// Finds LayerNorms written out in small ops (mean, sub, mul or pow, sqrt, div) and puts a
// layer_norm node in their place, so that the detector sees them (cases.md P31).
#pragma once
#include <string>
#include <vector>

#include "autograd/analysis/graph.h"

namespace cbwc {

struct NormPattern {
  std::string name;  // of the node that ends it
  bool matched = false;
  std::string reason;  // why not
};

// A new graph, and what was found: each candidate (a mean over the last axis subtracted from its
// own input) with the reason where it was left as it was.
Graph merge_norm_patterns(const Graph& graph, std::vector<NormPattern>& found);

}  // namespace cbwc
