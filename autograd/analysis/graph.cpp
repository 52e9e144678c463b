#include "autograd/analysis/graph.h"

#include <algorithm>

#include "autograd/ops/attention.h"
#include "autograd/ops/center.h"
#include "autograd/ops/conv2d.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/layer_norm.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/rms_norm.h"
#include "autograd/ops/shape.h"

namespace cbwc {
namespace {

// Of the ops whose rules need more than their inputs' shapes.
GraphAttributes attributes_of(const Op& op) {
  GraphAttributes a;
  if (const auto* o = dynamic_cast<const PermuteOp*>(&op)) {
    a.axes = o->axes;
  } else if (const auto* o = dynamic_cast<const SliceOp*>(&op)) {
    a.axis = o->axis;
    a.start = o->start;
    a.end = o->end;
  } else if (const auto* o = dynamic_cast<const ConcatOp*>(&op)) {
    a.axis = o->axis;
    a.extents = o->extents;
  } else if (const auto* o = dynamic_cast<const RollOp*>(&op)) {
    a.axes = o->axes;
  } else if (const auto* o = dynamic_cast<const PadOp*>(&op)) {
    a.axis = o->axis;
    a.start = o->before;
    a.end = o->after;
    a.value = o->value;
  } else if (const auto* o = dynamic_cast<const ReduceOp*>(&op)) {
    a.axes = o->axes;
    a.keepdim = o->keepdim;
  } else if (const auto* o = dynamic_cast<const CenterOp*>(&op)) {
    a.axis = o->axis;
  } else if (const auto* o = dynamic_cast<const ScaleOp*>(&op)) {
    a.value = o->factor;
  } else if (const auto* o = dynamic_cast<const MatmulOp*>(&op)) {
    a.transpose_a = o->transpose_a;
    a.transpose_b = o->transpose_b;
  } else if (const auto* o = dynamic_cast<const AttentionOp*>(&op)) {
    a.heads = o->attributes().H;
  } else if (const auto* o = dynamic_cast<const Conv2dOp*>(&op)) {
    a.groups = o->groups;
  } else if (const auto* o = dynamic_cast<const DropoutOp*>(&op)) {
    a.value = o->p();
  } else if (const auto* o = dynamic_cast<const LayerNormOp*>(&op)) {
    a.eps = o->eps;
  } else if (const auto* o = dynamic_cast<const RmsNormOp*>(&op)) {
    a.eps = o->eps;
  }
  return a;
}

}  // namespace

void Graph::connect() {
  for (GraphValue& v : values) {
    v.producer = -1;
    v.readers.clear();
  }
  const int count = static_cast<int>(values.size());
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    for (int out : nodes[n].outputs) {
      CBWC_CHECK(out >= 0 && out < count && values[out].producer < 0, "graph: ", node_name(n),
                 " writes value ", out, ", which is not there or is another node's");
      values[out].producer = n;
    }
  }
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    for (int in : nodes[n].inputs) {
      if (in < 0) continue;
      CBWC_CHECK(in < count && values[in].producer < n, "graph: ", node_name(n), " reads value ",
                 in, ", which is not there or is made later");
      std::vector<int>& readers = values[in].readers;
      if (readers.empty() || readers.back() != n) readers.push_back(n);
    }
  }
}

std::string Graph::node_name(int node) const {
  const GraphNode& n = nodes[node];
  return n.module.empty() ? n.op + " " + std::to_string(node) : n.module;
}

Graph graph_of(const Tape& tape, const std::vector<Variable>& outputs, bool training) {
  Graph graph;
  graph.training = training;
  graph.values.reserve(tape.values().size());
  for (const TapeValue& v : tape.values()) {
    GraphValue value;
    value.shape = v.shape;
    if (v.parameter != nullptr) value.parameter = v.parameter->name();
    graph.values.push_back(std::move(value));
  }
  graph.nodes.reserve(tape.nodes().size());
  for (const TapeNode& n : tape.nodes()) {
    graph.nodes.push_back({n.op->name(), n.scope, {}, {}, attributes_of(*n.op)});
    graph.nodes.back().inputs.assign(n.inputs.begin(), n.inputs.end());
    graph.nodes.back().outputs.assign(n.outputs.begin(), n.outputs.end());
  }
  for (const Variable& v : outputs) {
    CBWC_CHECK(v.tape() == &tape, "graph: a declared output was not recorded on the tape");
    graph.values[v.id()].output = true;
  }
  graph.connect();
  return graph;
}

}  // namespace cbwc
