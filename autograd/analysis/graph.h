// Graph: a read-only picture of one forward pass (ops, values, parameters, module names) that the
// analyses read. graph_of() makes one from a tape; a reader of model files can make one too: the
// rules know nothing of where it came from. No tensors in it.
#pragma once
#include <string>
#include <vector>

#include "core/tensor.h"

namespace cbwc {

class Tape;
class Variable;

struct GraphValue {
  Shape shape;
  std::string parameter;     // its dotted name; empty: none
  bool output = false;       // declared: something outside the graph reads it
  int producer = -1;         // node; -1: a parameter or an input. Filled by connect(), as
  std::vector<int> readers;  // these, once per reading node, in execution order
};

// What an op was told besides its inputs; each op fills what it has. Axes count from the front.
struct GraphAttributes {
  int axis = 0;                                   // slice, concat, pad, center
  std::vector<int> axes;                          // permute: axis i of the result is axes[i]; roll,
                                                  // reductions
  std::vector<int64_t> extents;                   // concat: of each part
  int64_t start = 0, end = 0;                     // slice: [start, end); pad: before, after
  bool keepdim = false;                           // reductions
  bool transpose_a = false, transpose_b = false;  // matmul
  int64_t heads = 1;                              // attention
  int64_t groups = 1;                             // conv2d
  double value = 0;                               // pad; scale's factor; dropout's p; pow's power
  double eps = 0;                                 // norms
};

struct GraphNode {
  std::string op;           // the stem, as Op::name(): "layer_norm"
  std::string module;       // dotted: "blocks.0.norm1"
  std::vector<int> inputs;  // values; -1: an optional input that is absent
  std::vector<int> outputs;
  GraphAttributes attributes = {};
};

struct Graph {
  std::vector<GraphValue> values;
  std::vector<GraphNode> nodes;  // in execution order
  bool training = false;         // dropout is on the graph

  // Fills producers and readers. Error when a node reads what a later one makes.
  void connect();
  // The node's module, or its op and number where it has none.
  std::string node_name(int node) const;
};

// `outputs` are what the caller returns: logits, hidden states.
Graph graph_of(const Tape& tape, const std::vector<Variable>& outputs, bool training);

}  // namespace cbwc
