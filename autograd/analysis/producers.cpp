#include "autograd/analysis/producers.h"

#include <algorithm>

namespace cbwc {
namespace {

bool is_parameter(const Graph& g, int value) {
  return value >= 0 && !g.values[value].parameter.empty();
}

// Read by this node and nobody else, once.
bool only_reader(const Graph& g, int value, int node) {
  const auto& in = g.nodes[node].inputs;
  return !g.values[value].output && g.values[value].readers == std::vector<int>{node} &&
         std::count(in.begin(), in.end(), value) == 1;
}

std::optional<Leaf> parameter_leaf(const Graph& g, int value, const Lane& lane) {
  const GraphValue& v = g.values[value];
  if (v.parameter.empty()) return std::nullopt;
  const std::string layer = v.readers.empty() ? "" : g.node_name(v.readers[0]);
  return Leaf{{{v.parameter, layer, lane}}, {{value, lane}}};
}

// A linear node whose weight and bias (if any) are parameters that nothing else reads; else -1.
int private_linear(const Graph& g, int value) {
  const int node = g.values[value].producer;
  if (node < 0 || g.nodes[node].op != "linear") return -1;
  for (size_t i = 1; i < g.nodes[node].inputs.size(); ++i) {
    const int in = g.nodes[node].inputs[i];
    if (in >= 0 && !(is_parameter(g, in) && only_reader(g, in, node))) return -1;
  }
  return g.nodes[node].inputs[1] >= 0 ? node : -1;
}

void add_parts(const Graph& g, int linear, Lane lane, int together, const std::string& scale,
               Leaf& leaf) {
  lane.axis = 0;
  for (size_t i = 1; i < g.nodes[linear].inputs.size(); ++i) {
    const int in = g.nodes[linear].inputs[i];
    if (in < 0) continue;
    const int group = together == 0 ? 0 : static_cast<int>(i);
    leaf.parts.push_back({g.values[in].parameter, g.node_name(linear), lane, group, scale});
  }
}

// gain * (W x + b) = (gain W) x + gain b: the gain goes into the weight before the centring.
std::optional<Leaf> scaled_leaf(const Graph& g, int value, const Lane& lane) {
  const int mul = g.values[value].producer;
  if (mul < 0 || g.nodes[mul].op != "mul") return std::nullopt;
  const Shape& shape = g.values[value].shape;
  if (lane.axis != static_cast<int>(shape.size()) - 1) return std::nullopt;
  if (lane.start != 0 || lane.end != shape.back()) return std::nullopt;  // scaled as one, or not
  for (int i = 0; i < 2; ++i) {
    const int gain = g.nodes[mul].inputs[i], x = g.nodes[mul].inputs[1 - i];
    if (!is_parameter(g, gain) || g.values[gain].shape != Shape{shape.back()} ||
        !only_reader(g, gain, mul) || !only_reader(g, x, mul)) {
      continue;
    }
    const int linear = private_linear(g, x);
    if (linear < 0 || g.values[x].shape != shape) continue;
    Leaf leaf;
    add_parts(g, linear, lane, 0, g.values[gain].parameter, leaf);
    leaf.sources.push_back({value, lane});
    return leaf;
  }
  return std::nullopt;
}

// Rows of several weights that see the same input are one weight: their stack is centred as one,
// and so is the stack of the biases, which all of them must have or none.
std::optional<Leaf> stacked_leaf(const Graph& g, int value, const Lane& lane) {
  const int concat = g.values[value].producer;
  if (concat < 0 || g.nodes[concat].op != "concat" || g.nodes[concat].inputs.size() < 2) {
    return std::nullopt;
  }
  const Shape& shape = g.values[value].shape;
  const int last = static_cast<int>(shape.size()) - 1;
  if (g.nodes[concat].attributes.axis != last || lane.axis != last || !is_whole(lane, shape)) {
    return std::nullopt;
  }
  Leaf leaf;
  int source = -1;
  bool biased = false;
  for (int part : g.nodes[concat].inputs) {
    const int linear = private_linear(g, part);
    const auto& parts = g.nodes[concat].inputs;
    if (linear < 0 || std::count(parts.begin(), parts.end(), part) > 1) return std::nullopt;
    const auto& in = g.nodes[linear].inputs;
    const bool bias = in.size() > 2 && in[2] >= 0;
    if (source >= 0 && (in[0] != source || bias != biased)) return std::nullopt;
    source = in[0];
    biased = bias;
    add_parts(g, linear, whole_axis(g.values[part].shape, last), 1, "", leaf);
    leaf.sources.push_back({part, whole_axis(g.values[part].shape, last), concat});
  }
  leaf.sources.push_back({value, lane});
  return leaf;
}

}  // namespace

std::optional<Leaf> find_producer(const Graph& graph, int value, const Lane& lane) {
  if (auto leaf = parameter_leaf(graph, value, lane)) return leaf;
  if (auto leaf = scaled_leaf(graph, value, lane)) return leaf;
  return stacked_leaf(graph, value, lane);
}

}  // namespace cbwc
