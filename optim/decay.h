// Weight decay by role: weights, embeddings and positions decay; norm gains, norm biases and biases
// never do (cases.md P68).
#pragma once
#include <string>
#include <vector>

#include "autograd/parameter.h"

namespace cbwc {

bool decays(Role role);

// A contiguous stretch of the flat buffers that is updated with one decay.
struct UpdateRange {
  int64_t begin, end;  // elements, [begin, end)
  bool decay;
};
// Neighbours of one kind are merged; parameters that are not trainable are in no range.
std::vector<UpdateRange> update_ranges(const FlatParameters& parameters);

struct DecayGroup {
  std::string name;  // "decay", "no decay", "frozen"
  std::vector<std::string> parameters;
  int64_t elements = 0;
};
std::vector<DecayGroup> decay_groups(const FlatParameters& parameters);  // the three, in this order
std::string decay_report(const FlatParameters& parameters);              // one line a parameter

}  // namespace cbwc
