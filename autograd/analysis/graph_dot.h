// Draws a detection for Graphviz: norms coloured by verdict, their zero-mean graphs, leaves marked.
#pragma once
#include <string>

#include "autograd/analysis/detector.h"

namespace cbwc {

// One `digraph`; modules are clusters of at most `depth` levels, ops outside every zero-mean graph
// are drawn grey.
std::string to_dot(const Graph& graph, const Detection& detection, int depth = 2);

}  // namespace cbwc
