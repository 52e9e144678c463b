#include "autograd/analysis/zero_mean_rules.h"

#include <algorithm>
#include <optional>

namespace cbwc {
namespace {

// ---- sums and products, with NumPy's broadcasting

// The lane in operand i, or nothing where the operand is one number along it.
std::optional<Lane> in_operand(const OpView& x, int i, const Lane& out) {
  const int axis = out.axis - (x.out_rank() - x.in_rank(i));
  if (axis < 0 || (x.in(i)[axis] == 1 && x.out()[out.axis] != 1)) return std::nullopt;
  return moved(out, axis);
}

ZeroMean sum_zero_mean(const OpView& x, const Lane& lane) {
  ZeroMean r{ZeroMean::needs, {}, {}};
  for (int i = 0; i < 2; ++i) {
    const auto l = in_operand(x, i, lane);
    if (!l) return breaks("adds one number along the axis");
    r.inputs.push_back({x.node.inputs[i], *l});
  }
  return r;
}

// A shift in an operand that is repeated along other axes is repeated too, and stays constant.
Shift sum_shift(const OpView& x, int i, const Lane& lane) {
  const int axis = lane.axis + x.out_rank() - x.in_rank(i);
  if (x.in(i)[lane.axis] == 1) return carries(whole_axis(x.out(), axis));
  return carries(moved(lane, axis));
}

// x * x and the like: the lanes of both operands count, so the other one must be one number there.
ZeroMean product_zero_mean(const OpView& x, const Lane& lane) {
  for (int i = 0; i < 2; ++i) {
    const auto mine = in_operand(x, i, lane), other = in_operand(x, 1 - i, lane);
    if (mine && !other) return needs(x, {{i, *mine}});
  }
  return breaks("multiplies the channels by different numbers");
}

Shift product_shift(const OpView& x, int i, const Lane& lane) {
  const Lane out = moved(lane, lane.axis + x.out_rank() - x.in_rank(i));
  if (x.node.inputs[0] == x.node.inputs[1]) return spoils("squares it");
  if (in_operand(x, 1 - i, out)) return spoils("multiplies the channels by different numbers");
  return carries(out);
}

// ---- matrix products

// y = x w^T + b: w (out, in) adds over the outputs as y does over its last axis.
ZeroMean linear_zero_mean(const OpView& x, const Lane& lane) {
  if (lane.axis != x.last()) {
    if (x.has(2)) return breaks("adds a bias to every token");
    return needs(x, {{0, lane}});
  }
  return needs(x, {{1, moved(lane, 0)}, {2, moved(lane, 0)}});
}

Shift linear_shift(const OpView& x, int i, const Lane& lane) {
  if (i == 2 || (i == 1 && lane.axis == 0)) return carries(moved(lane, x.last()));
  if (i == 1) {
    if (is_whole(lane, x.in(1))) return {Shift::tied, {}, "reads the weight along its input axis"};
    return spoils("reads the weight along its input axis");
  }
  if (lane.axis != x.in_rank(0) - 1) return carries(lane);
  return spoils("reads it through a Linear, which is not blind to the mean");
}

// Axis -1 of the result is b's, axis -2 is a's; the others are a batch.
int matmul_axis(const OpView& x, int i) {
  const int last = x.in_rank(i) - 1;
  if (i == 0) return x.a().transpose_a ? last : last - 1;
  return x.a().transpose_b ? last - 1 : last;
}

ZeroMean matmul_zero_mean(const OpView& x, const Lane& lane) {
  if (lane.axis == x.last()) return needs(x, {{1, moved(lane, matmul_axis(x, 1))}});
  if (lane.axis == x.last() - 1) return needs(x, {{0, moved(lane, matmul_axis(x, 0))}});
  return breaks("mixes along the axis differently for each element");
}

Shift matmul_shift(const OpView& x, int i, const Lane& lane) {
  if (x.node.inputs[0] == x.node.inputs[1]) return spoils("multiplies it by itself");
  if (lane.axis == matmul_axis(x, i)) return carries(moved(lane, x.last() - (i == 0 ? 1 : 0)));
  const int contracted = 2 * x.in_rank(i) - 3 - matmul_axis(x, i);
  if (lane.axis != contracted) return spoils("uses it as one batch among several");
  const bool weight = i == 1 && !x.graph.values[x.node.inputs[1]].parameter.empty();
  if (weight && is_whole(lane, x.in(1))) return {Shift::tied, {}, "reads the weight's input axis"};
  return spoils("sums it with weights, which is not blind to the mean");
}

// y (B, O, H, W) from w (O, I / groups, kh, kw) and b (O). Each group's output channels have inputs
// of their own: the weights of a lane must see the same ones.
bool conv_groups_split(const OpView& x, const Lane& lane) {
  const int64_t groups = x.a().groups;
  if (groups == 1) return false;
  const int64_t width = x.out()[1] / groups;
  return lane.block > width || width % lane.block != 0 || lane.start % lane.block != 0;
}

ZeroMean conv_zero_mean(const OpView& x, const Lane& lane) {
  if (lane.axis != 1) return breaks("mixes positions along the axis");
  if (conv_groups_split(x, lane)) {
    return breaks("is a grouped convolution: its output channels see different inputs");
  }
  return needs(x, {{1, moved(lane, 0)}, {2, moved(lane, 0)}});
}

Shift conv_shift(const OpView& x, int i, const Lane& lane) {
  if (i == 0) return spoils("reads it through a convolution, which is not blind to the mean");
  if (lane.axis != 0) return spoils("reads the weight along another axis");
  const Lane out = moved(lane, 1);
  if (i == 1 && conv_groups_split(x, out)) return spoils("is a grouped convolution");
  return carries(out);
}

// ---- attention

// softmax(q k^T) v: one mixing of the tokens per head, the same for its whole width. Only lanes
// that lie within heads, or are made of whole ones, pass.
std::optional<Lane> within_heads(const Lane& lane, int64_t width) {
  const bool of_heads = lane.block % width == 0 && lane.start % width == 0;
  const bool in_head = width % lane.block == 0 && lane.start % lane.block == 0;
  if (!of_heads && !in_head) return std::nullopt;
  return Lane{lane.axis, lane.start, lane.end, std::min(lane.block, width)};
}
int64_t head_width(const OpView& x) { return x.out().back() / x.a().heads; }

// What the lane asks of v's columns, or why it cannot be asked.
ZeroMean head_zero_mean(const OpView& x, const Lane& lane, int input,
                        Lane (*of_v)(const OpView&, Lane)) {
  if (lane.axis != x.last()) return breaks("mixes the tokens");
  if (lane.block > head_width(x)) return breaks("mixes the tokens differently in each head");
  const auto l = within_heads(lane, head_width(x));
  return l ? needs(x, {{input, of_v(x, *l)}}) : breaks("cuts the axis");
}

// v (B, H, T, D).
ZeroMean attention_zero_mean(const OpView& x, const Lane& lane) {
  return head_zero_mean(x, lane, 2, [](const OpView& at, Lane l) {
    return Lane{at.in_rank(2) - 1, 0, head_width(at), l.block};
  });
}
Shift attention_shift(const OpView& x, int i, const Lane& lane) {
  if (i == 3) return spoils("adds it to the scores");
  if (i != 2) return spoils("reads it as a query or key");
  if (x.node.inputs[0] == x.node.inputs[2] || x.node.inputs[1] == x.node.inputs[2]) {
    return spoils("reads it as a query or key");
  }
  if (lane.axis != x.in_rank(2) - 1) return spoils("mixes the tokens");
  if (lane.start != 0 || lane.end != head_width(x)) return spoils("reads part of a head");
  return carries({x.last(), 0, x.out().back(), lane.block});
}

// The packed (B, T, 3C) = [q | k | v].
ZeroMean packed_attention_zero_mean(const OpView& x, const Lane& lane) {
  return head_zero_mean(x, lane, 0, [](const OpView& at, Lane l) {
    const int64_t v = 2 * at.out().back();
    return Lane{l.axis, v + l.start, v + l.end, l.block};
  });
}
Shift packed_attention_shift(const OpView& x, int i, const Lane& lane) {
  const int64_t v = 2 * x.out().back();
  if (i != 0) return spoils("adds it to the scores");
  if (lane.axis != x.last()) return spoils("mixes the tokens");
  if (lane.start < v) return spoils("reads it as a query or key");
  const auto l = within_heads({lane.axis, lane.start - v, lane.end - v, lane.block}, head_width(x));
  return l ? carries(*l) : spoils("reads part of a head");
}

// ---- tables

ZeroMean embedding_zero_mean(const OpView& x, const Lane& lane) {
  if (lane.axis != x.last()) return breaks("picks a row for each token");
  return needs(x, {{0, moved(lane, 1)}});
}
Shift embedding_shift(const OpView& x, int, const Lane& lane) {
  if (lane.axis == 1) return carries(moved(lane, x.last()));
  return spoils("picks rows");
}

ZeroMean centered_embedding_zero_mean(const OpView& x, const Lane& lane) {
  if (blind_to(lane, x.out(), x.last())) return holds();
  return lane.axis == x.last() ? breaks("centres it together with other parts")
                               : breaks("picks a row for each token");
}
Shift centered_embedding_shift(const OpView& x, int i, const Lane& lane) {
  if (blind_to(lane, x.in(0), 1)) return blind();
  const bool part = lane.axis == 1 && (lane.start != 0 || lane.end != x.in(0)[1]);
  return part ? spoils("centres it together with other parts") : embedding_shift(x, i, lane);
}

// Rows of the axis before the last, the same ones for every batch entry.
ZeroMean gather_rows_zero_mean(const OpView& x, const Lane& lane) {
  return lane.axis == x.last() ? needs(x, {{0, lane}}) : breaks("picks rows");
}
Shift gather_rows_shift(const OpView& x, int, const Lane& lane) {
  return lane.axis == x.last() ? carries(lane) : spoils("picks rows");
}

// ---- norms and the projector

ZeroMean center_zero_mean(const OpView& x, const Lane& lane) {
  if (blind_to(lane, x.out(), x.a().axis)) return holds();
  if (lane.axis == x.a().axis) return breaks("centres another part of the axis");
  return needs(x, {{0, lane}});
}
Shift center_shift(const OpView& x, int, const Lane& lane) {
  if (blind_to(lane, x.in(0), x.a().axis)) return blind();
  // P takes the mean of a part's shift off the other parts.
  const bool part = lane.axis == x.a().axis && (lane.start != 0 || lane.end != x.in(0)[lane.axis]);
  return part ? spoils("centres it together with other parts") : carries(lane);
}

// Both divide each row of the last axis by one number. An affine that exists is general: a fresh
// model's ones and zeros prove nothing.
ZeroMean layer_norm_zero_mean(const OpView& x, const Lane& lane) {
  if (x.has(1) || x.has(2))
    return breaks("has a gain or bias, which leaves its output with a mean");
  if (blind_to(lane, x.out(), x.last())) return holds();
  return breaks("removes the mean of another axis");
}
Shift layer_norm_shift(const OpView& x, int i, const Lane& lane) {
  if (i != 0) return spoils("uses it as its gain or bias");
  if (blind_to(lane, x.in(0), x.last())) return blind();
  return spoils(lane.axis == x.last() ? "normalises several parts that shift by different amounts"
                                      : "normalises over another axis");
}
ZeroMean rms_norm_zero_mean(const OpView& x, const Lane& lane) {
  if (x.has(1) || x.has(2))
    return breaks("has a gain or bias, which leaves its output with a mean");
  if (lane.axis == x.last()) return needs(x, {{0, lane}});
  return breaks("scales every token differently");
}
Shift rms_norm_shift(const OpView&, int i, const Lane&) {
  return spoils(i == 0 ? "is an RMSNorm, which is not blind to the mean"
                       : "uses it as its gain or bias");
}

ZeroMean softmax_zero_mean(const OpView&, const Lane&) {
  return breaks("does not keep a zero mean");
}
Shift softmax_shift(const OpView& x, int, const Lane& lane) {
  return blind_to(lane, x.in(0), x.last()) ? blind() : spoils("is not linear");
}

}  // namespace

const ZeroMeanRule kSumRule = {sum_zero_mean, sum_shift};
const ZeroMeanRule kProductRule = {product_zero_mean, product_shift};
const ZeroMeanRule kLinearRule = {linear_zero_mean, linear_shift};
const ZeroMeanRule kMatmulRule = {matmul_zero_mean, matmul_shift};
const ZeroMeanRule kConv2dRule = {conv_zero_mean, conv_shift};
const ZeroMeanRule kAttentionRule = {attention_zero_mean, attention_shift};
const ZeroMeanRule kPackedAttentionRule = {packed_attention_zero_mean, packed_attention_shift};
const ZeroMeanRule kEmbeddingRule = {embedding_zero_mean, embedding_shift};
const ZeroMeanRule kCenteredEmbeddingRule = {centered_embedding_zero_mean,
                                             centered_embedding_shift};
const ZeroMeanRule kGatherRowsRule = {gather_rows_zero_mean, gather_rows_shift};
const ZeroMeanRule kCenterRule = {center_zero_mean, center_shift};
const ZeroMeanRule kLayerNormRule = {layer_norm_zero_mean, layer_norm_shift};
const ZeroMeanRule kRmsNormRule = {rms_norm_zero_mean, rms_norm_shift};
const ZeroMeanRule kSoftmaxRule = {softmax_zero_mean, softmax_shift};

}  // namespace cbwc
