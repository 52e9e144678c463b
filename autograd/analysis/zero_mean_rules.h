// Inside the analysis: the rules that the table in zero_mean.cpp names, and what they are written
// with. Each rule is a pair of small functions, one per fact (Note [Zero-mean streams]). They may
// take it that the lane is not empty.
#pragma once
#include <initializer_list>
#include <utility>

#include "autograd/analysis/zero_mean.h"

namespace cbwc {

// What the rules of one op see.
struct OpView {
  const Graph& graph;
  const GraphNode& node;
  bool has(int i) const { return i < static_cast<int>(node.inputs.size()) && node.inputs[i] >= 0; }
  const Shape& in(int i) const { return graph.values[node.inputs[i]].shape; }
  const Shape& out() const { return graph.values[node.outputs[0]].shape; }
  int in_rank(int i) const { return static_cast<int>(in(i).size()); }
  int out_rank() const { return static_cast<int>(out().size()); }
  int last() const { return out_rank() - 1; }
  const GraphAttributes& a() const { return node.attributes; }
};

struct ZeroMeanRule {
  ZeroMean (*zero_mean)(const OpView&, const Lane& of_output);
  Shift (*shift)(const OpView&, int input, const Lane& of_input);
};

// zero_mean_rules_products.cpp
extern const ZeroMeanRule kSumRule, kProductRule, kLinearRule, kMatmulRule, kConv2dRule,
    kAttentionRule, kPackedAttentionRule, kEmbeddingRule, kCenteredEmbeddingRule, kGatherRowsRule,
    kCenterRule, kLayerNormRule, kRmsNormRule, kSoftmaxRule;
// zero_mean_rules_moves.cpp
extern const ZeroMeanRule kSameRule, kReshapeRule, kPermuteRule, kSliceRule, kConcatRule, kRollRule,
    kPadRule, kReduceRule, kElementDropoutRule, kPathDropoutRule, kTokenDropoutRule;

// ---- answers
inline ZeroMean holds() { return {ZeroMean::holds, {}, {}}; }
inline ZeroMean breaks(std::string reason) { return {ZeroMean::breaks, {}, std::move(reason)}; }
inline Shift blind() { return {Shift::blind, {}, {}}; }
inline Shift carries(const Lane& lane) { return {Shift::carries, lane, {}}; }
inline Shift spoils(std::string reason) { return {Shift::spoils, {}, std::move(reason)}; }

// needs(x, {{0, lane}, {1, other}}): the inputs by number; those that are absent need nothing.
struct Want {
  int input;
  Lane lane;
};
inline ZeroMean needs(const OpView& x, std::initializer_list<Want> wants) {
  ZeroMean r{ZeroMean::needs, {}, {}};
  for (const Want& w : wants) {
    if (x.has(w.input)) r.inputs.push_back({x.node.inputs[w.input], w.lane});
  }
  return r;
}

// ---- lanes
inline Lane moved(Lane lane, int axis) {
  lane.axis = axis;
  return lane;
}
// What centres or normalises over the whole of `axis` is blind to the lane.
inline bool blind_to(const Lane& lane, const Shape& shape, int axis) {
  return lane.axis == axis && is_whole(lane, shape);
}

}  // namespace cbwc
