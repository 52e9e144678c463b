#include "autograd/analysis/zero_mean.h"

#include "autograd/analysis/zero_mean_rules.h"

namespace cbwc {
namespace {

struct Row {
  const char* op;
  const ZeroMeanRule& rule;
};

// The table of method.md 4. Of each row: what keeps a zero mean along an axis | what a constant
// shift along it does. What is not here proves nothing: activations, max, norm, losses.
constexpr Row kTable[] = {
    // ---- P and the norms (an affine that exists is general, whatever its numbers are now)
    // makes one along its axis, keeps it along others | blind along its whole axis
    {"center", kCenterRule},
    // makes one along the last axis unless it has a gain or bias | blind over exactly that axis
    {"layer_norm", kLayerNormRule},
    // keeps it along the last axis unless it has a gain or bias | never blind
    {"rms_norm", kRmsNormRule},
    // never zero-mean | blind over exactly the last axis
    {"softmax", kSoftmaxRule},

    // ---- sums and products
    // both terms have it; one number added along the axis breaks it | stays, repeated or not
    {"add", kSumRule},
    {"sub", kSumRule},
    // the other factor is one number along the axis; a per-channel gain breaks it | the same
    {"mul", kProductRule},
    // always kept | stays
    {"scale", kSameRule},

    // ---- weights: their output axis is where a layer is centred
    // channels: weight and bias have it; tokens: the input has it, no bias | the same; a weight's
    // input axis is a tie; a shift of the channels that it reads spoils
    {"linear", kLinearRule},
    // the factor that the axis comes from has it | stays there; the summed axis: tie, or spoils
    {"matmul", kMatmulRule},
    // channels: weight and bias have it, each group within one conv group | input: spoils
    {"conv2d", kConv2dRule},
    // each table row has it; along other axes the picked rows differ | stays along the rows
    {"embedding", kEmbeddingRule},
    // makes one along its rows | blind along whole rows
    {"centered_embedding", kCenteredEmbeddingRule},
    // kept along the last axis, a row of padding is zero; rows are picked | the same
    {"gather_rows", kGatherRowsRule},
    // v has it within each head; heads mix differently | v: one number per head; q, k: spoils
    {"attention", kAttentionRule},
    {"attention_qkv", kPackedAttentionRule},

    // ---- moving elements
    // kept where the axis stays an axis, or becomes whole groups of one | the same
    {"reshape", kReshapeRule},
    // kept | stays
    {"permute", kPermuteRule},
    // other axes: kept; along the axis: what is left has it | cutting a group of several spoils
    {"slice", kSliceRule},
    // every part has it; along the axis no part may cut a group | stays in its part of the axis
    {"concat", kConcatRule},
    // kept; along the axis only for the whole of it | the same
    {"roll", kRollRule},
    // kept by zeros, broken by another value | stays in its part of the axis
    {"pad", kPadRule},

    // ---- sums over axes, pooling
    // kept along the axes that are left | summed along its own axis it spoils
    {"sum", kReduceRule},
    {"mean", kReduceRule},

    // ---- dropout in training (in evaluation there is no such node)
    // broken: single elements go | spoils
    {"dropout", kElementDropoutRule},
    // kept within a sample (not along the first axis): it goes as a whole | the same
    {"drop_path", kPathDropoutRule},
    // kept within a token (along the last axis only): it goes as a whole | the same
    {"token_dropout", kTokenDropoutRule},
};

const Row* row_of(const std::string& op) {
  for (const Row& row : kTable) {
    if (op == row.op) return &row;
  }
  return nullptr;
}

}  // namespace

// An empty lane has no group that could have a mean, and no element that could change.
ZeroMean zero_mean(const Graph& graph, int node, const Lane& lane) {
  if (lane.empty()) return holds();
  const Row* row = row_of(graph.nodes[node].op);
  if (row == nullptr) return breaks("(" + graph.nodes[node].op + ") does not keep a zero mean");
  return row->rule.zero_mean({graph, graph.nodes[node]}, lane);
}

Shift shift(const Graph& graph, int node, int input, const Lane& lane) {
  if (lane.empty()) return blind();
  const Row* row = row_of(graph.nodes[node].op);
  if (row == nullptr) return spoils("(" + graph.nodes[node].op + ") is not blind to the mean");
  return row->rule.shift({graph, graph.nodes[node]}, input, lane);
}

std::vector<std::string> zero_mean_table() {
  std::vector<std::string> ops;
  for (const Row& row : kTable) ops.push_back(row.op);
  return ops;
}

}  // namespace cbwc
