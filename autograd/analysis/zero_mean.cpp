#include "autograd/analysis/zero_mean.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

namespace cbwc {
namespace {

int64_t trailing(const Shape& shape, int axis) {
  int64_t n = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i) n *= shape[i];
  return n;
}

// What the rules of one op see.
struct At {
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

ZeroMean holds() { return {ZeroMean::holds, {}, {}}; }
ZeroMean breaks(std::string reason) { return {ZeroMean::breaks, {}, std::move(reason)}; }
Shift blind() { return {Shift::blind, {}, {}}; }
Shift carries(const Lane& lane) { return {Shift::carries, lane, {}}; }
Shift spoils(std::string reason) { return {Shift::spoils, {}, std::move(reason)}; }

// needs(x, {0, lane}, {1, other}): the inputs by number.
struct Want {
  int input;
  Lane lane;
};
ZeroMean needs(const At& x, std::initializer_list<Want> wants) {
  ZeroMean r{ZeroMean::needs, {}, {}};
  for (const Want& w : wants) {
    if (x.has(w.input)) r.inputs.push_back({x.node.inputs[w.input], w.lane});
  }
  return r;
}

Lane moved(Lane lane, int axis) {
  lane.axis = axis;
  return lane;
}

bool blind_to(const Lane& lane, const Shape& shape, int axis) {
  return lane.axis == axis && is_whole(lane, shape);
}

// ---- add, sub, mul: NumPy broadcasting
// ----------------------------------------------------------- The lane in operand i, or nothing
// where the operand is one number along it.
std::optional<Lane> in_operand(const At& x, int i, const Lane& out) {
  const int axis = out.axis - (x.out_rank() - x.in_rank(i));
  if (axis < 0 || (x.in(i)[axis] == 1 && x.out()[out.axis] != 1)) return std::nullopt;
  return moved(out, axis);
}

ZeroMean sum_zero_mean(const At& x, const Lane& lane) {
  ZeroMean r{ZeroMean::needs, {}, {}};
  for (int i = 0; i < 2; ++i) {
    const auto l = in_operand(x, i, lane);
    if (!l) return breaks("adds one number along the axis");
    r.inputs.push_back({x.node.inputs[i], *l});
  }
  return r;
}

// A shift in an operand that is repeated along other axes is repeated too, and stays constant.
Shift sum_shift(const At& x, int i, const Lane& lane) {
  const int axis = lane.axis + x.out_rank() - x.in_rank(i);
  if (x.in(i)[lane.axis] == 1) return carries(whole_axis(x.out(), axis));
  return carries(moved(lane, axis));
}

// x * x and the like: the lanes of both operands count, so the other one must be one number there.
ZeroMean product_zero_mean(const At& x, const Lane& lane) {
  for (int i = 0; i < 2; ++i) {
    const auto mine = in_operand(x, i, lane), other = in_operand(x, 1 - i, lane);
    if (mine && !other) return needs(x, {{i, *mine}});
  }
  return breaks("multiplies the channels by different numbers");
}

Shift product_shift(const At& x, int i, const Lane& lane) {
  const Lane out = moved(lane, lane.axis + x.out_rank() - x.in_rank(i));
  if (x.node.inputs[0] == x.node.inputs[1]) return spoils("squares it");
  if (in_operand(x, 1 - i, out)) return spoils("multiplies the channels by different numbers");
  return carries(out);
}

// ---- products
// ------------------------------------------------------------------------------------ y = x w^T +
// b: w (out, in) adds over the outputs as y does over its last axis.
ZeroMean linear_zero_mean(const At& x, const Lane& lane) {
  if (lane.axis != x.last()) {
    if (x.has(2)) return breaks("adds a bias to every token");
    return needs(x, {{0, lane}});
  }
  return needs(x, {{1, moved(lane, 0)}, {2, moved(lane, 0)}});
}

Shift linear_shift(const At& x, int i, const Lane& lane) {
  if (i == 2 || (i == 1 && lane.axis == 0)) return carries(moved(lane, x.last()));
  if (i == 1) {
    if (is_whole(lane, x.in(1))) return {Shift::tied, {}, "reads the weight along its input axis"};
    return spoils("reads the weight along its input axis");
  }
  if (lane.axis != x.in_rank(0) - 1) return carries(lane);
  return spoils("reads it through a Linear, which is not blind to the mean");
}

// Axis -1 of the result is b's, axis -2 is a's; the others are a batch.
int matmul_axis(const At& x, int i) {
  const int last = x.in_rank(i) - 1;
  if (i == 0) return x.a().transpose_a ? last : last - 1;
  return x.a().transpose_b ? last - 1 : last;
}

ZeroMean matmul_zero_mean(const At& x, const Lane& lane) {
  if (lane.axis == x.last()) return needs(x, {{1, moved(lane, matmul_axis(x, 1))}});
  if (lane.axis == x.last() - 1) return needs(x, {{0, moved(lane, matmul_axis(x, 0))}});
  return breaks("mixes along the axis differently for each element");
}

Shift matmul_shift(const At& x, int i, const Lane& lane) {
  if (x.node.inputs[0] == x.node.inputs[1]) return spoils("multiplies it by itself");
  if (lane.axis == matmul_axis(x, i)) return carries(moved(lane, x.last() - (i == 0 ? 1 : 0)));
  const int contracted = 2 * x.in_rank(i) - 3 - matmul_axis(x, i);
  if (lane.axis != contracted) return spoils("uses it as one batch among several");
  const bool weight = i == 1 && !x.graph.values[x.node.inputs[1]].parameter.empty();
  if (weight && is_whole(lane, x.in(1))) return {Shift::tied, {}, "reads the weight's input axis"};
  return spoils("sums it with weights, which is not blind to the mean");
}

// y (B, O, H, W) from w (O, I / groups, kh, kw) and b (O).
ZeroMean conv_zero_mean(const At& x, const Lane& lane) {
  if (lane.axis != 1) return breaks("mixes positions along the axis");
  return needs(x, {{1, moved(lane, 0)}, {2, moved(lane, 0)}});
}

// Groups: each output channel has inputs of its own, but centring the outputs needs only that the
// weights of a lane see the same input.
bool conv_groups_split(const At& x, const Lane& lane) {
  const int64_t groups = x.a().groups;
  if (groups == 1) return false;
  const int64_t width = x.out()[1] / groups;
  return lane.block > width || width % lane.block != 0 || lane.start % lane.block != 0;
}

ZeroMean grouped_conv_zero_mean(const At& x, const Lane& lane) {
  if (lane.axis == 1 && conv_groups_split(x, lane)) {
    return breaks("is a grouped convolution: its output channels see different inputs");
  }
  return conv_zero_mean(x, lane);
}

Shift conv_shift(const At& x, int i, const Lane& lane) {
  if (i == 0) return spoils("reads it through a convolution, which is not blind to the mean");
  if (lane.axis != 0) return spoils("reads the weight along another axis");
  const Lane out = moved(lane, 1);
  if (i == 1 && conv_groups_split(x, out)) return spoils("is a grouped convolution");
  return carries(out);
}

// softmax(q k^T) v: one mixing of the tokens per head, the same for its whole width. Only lanes
// that lie within heads, or are made of whole ones, pass.
std::optional<Lane> within_heads(const Lane& lane, int64_t width) {
  const bool of_heads = lane.block % width == 0 && lane.start % width == 0;
  const bool in_head = width % lane.block == 0 && lane.start % lane.block == 0;
  if (!of_heads && !in_head) return std::nullopt;
  return Lane{lane.axis, lane.start, lane.end, std::min(lane.block, width)};
}
int64_t head_width(const At& x) { return x.out().back() / x.a().heads; }

// What the lane asks of v's columns, or why it cannot be asked.
ZeroMean head_zero_mean(const At& x, const Lane& lane, int input, Lane (*of_v)(const At&, Lane)) {
  if (lane.axis != x.last()) return breaks("mixes the tokens");
  if (lane.block > head_width(x)) return breaks("mixes the tokens differently in each head");
  const auto l = within_heads(lane, head_width(x));
  return l ? needs(x, {{input, of_v(x, *l)}}) : breaks("cuts the axis");
}

// v (B, H, T, D).
ZeroMean attention_zero_mean(const At& x, const Lane& lane) {
  return head_zero_mean(x, lane, 2, [](const At& at, Lane l) {
    return Lane{at.in_rank(2) - 1, 0, head_width(at), l.block};
  });
}
Shift attention_shift(const At& x, int i, const Lane& lane) {
  if (i != 2) return spoils("reads it as a query or key");
  if (x.node.inputs[0] == x.node.inputs[2] || x.node.inputs[1] == x.node.inputs[2]) {
    return spoils("reads it as a query or key");
  }
  if (lane.axis != x.in_rank(2) - 1) return spoils("mixes the tokens");
  if (lane.start != 0 || lane.end != head_width(x)) return spoils("reads part of a head");
  return carries({x.last(), 0, x.out().back(), lane.block});
}

// The packed (B, T, 3C) = [q | k | v].
ZeroMean packed_attention_zero_mean(const At& x, const Lane& lane) {
  return head_zero_mean(x, lane, 0, [](const At& at, Lane l) {
    const int64_t v = 2 * at.out().back();
    return Lane{l.axis, v + l.start, v + l.end, l.block};
  });
}
Shift packed_attention_shift(const At& x, int, const Lane& lane) {
  const int64_t v = 2 * x.out().back();
  if (lane.axis != x.last()) return spoils("mixes the tokens");
  if (lane.start < v) return spoils("reads it as a query or key");
  const auto l = within_heads({lane.axis, lane.start - v, lane.end - v, lane.block}, head_width(x));
  return l ? carries(*l) : spoils("reads part of a head");
}

ZeroMean embedding_zero_mean(const At& x, const Lane& lane) {
  if (lane.axis != x.last()) return breaks("picks a row for each token");
  return needs(x, {{0, moved(lane, 1)}});
}
Shift embedding_shift(const At& x, int, const Lane& lane) {
  if (lane.axis == 1) return carries(moved(lane, x.last()));
  return spoils("picks rows");
}

ZeroMean centered_embedding_zero_mean(const At& x, const Lane& lane) {
  if (blind_to(lane, x.out(), x.last())) return holds();
  return lane.axis == x.last() ? breaks("centres it together with other parts")
                               : breaks("picks a row for each token");
}
Shift centered_embedding_shift(const At& x, int i, const Lane& lane) {
  if (blind_to(lane, x.in(0), 1)) return blind();
  const bool part = lane.axis == 1 && (lane.start != 0 || lane.end != x.in(0)[1]);
  return part ? spoils("centres it together with other parts") : embedding_shift(x, i, lane);
}

// ---- norms and the projector
// ---------------------------------------------------------------------
ZeroMean center_zero_mean(const At& x, const Lane& lane) {
  if (blind_to(lane, x.out(), x.a().axis)) return holds();
  if (lane.axis == x.a().axis) return breaks("centres another part of the axis");
  return needs(x, {{0, lane}});
}
Shift center_shift(const At& x, int, const Lane& lane) {
  if (blind_to(lane, x.in(0), x.a().axis)) return blind();
  // P takes the mean of a part's shift off the other parts.
  const bool part = lane.axis == x.a().axis && (lane.start != 0 || lane.end != x.in(0)[lane.axis]);
  return part ? spoils("centres it together with other parts") : carries(lane);
}

// Both divide each row of the last axis by one number. An affine that exists is general: a fresh
// model's ones and zeros prove nothing.
ZeroMean layer_norm_zero_mean(const At& x, const Lane& lane) {
  if (x.has(1) || x.has(2))
    return breaks("has a gain or bias, which leaves its output with a mean");
  if (blind_to(lane, x.out(), x.last())) return holds();
  return breaks("removes the mean of another axis");
}
Shift layer_norm_shift(const At& x, int i, const Lane& lane) {
  if (i != 0) return spoils("uses it as its gain or bias");
  if (blind_to(lane, x.in(0), x.last())) return blind();
  return spoils(lane.axis == x.last() ? "normalises several parts that shift by different amounts"
                                      : "normalises over another axis");
}
ZeroMean rms_norm_zero_mean(const At& x, const Lane& lane) {
  if (x.has(1) || x.has(2))
    return breaks("has a gain or bias, which leaves its output with a mean");
  if (lane.axis == x.last()) return needs(x, {{0, lane}});
  return breaks("scales every token differently");
}
Shift rms_norm_shift(const At&, int i, const Lane&) {
  return spoils(i == 0 ? "is an RMSNorm, which is not blind to the mean"
                       : "uses it as its gain or bias");
}

Shift softmax_shift(const At& x, int, const Lane& lane) {
  return blind_to(lane, x.in(0), x.last()) ? blind() : spoils("is not linear");
}

// ---- moving elements
// -----------------------------------------------------------------------------
ZeroMean same_zero_mean(const At& x, const Lane& lane) { return needs(x, {{0, lane}}); }
Shift same_shift(const At&, int, const Lane& lane) { return carries(lane); }

ZeroMean reshape_zero_mean(const At& x, const Lane& lane) {
  const auto l = reshaped(lane, x.out(), x.in(0));
  return l ? needs(x, {{0, *l}}) : breaks("reshapes several axes into the normalised one");
}
Shift reshape_shift(const At& x, int, const Lane& lane) {
  const auto l = reshaped(lane, x.in(0), x.out());
  return l ? carries(*l) : spoils("reshapes the axis into others");
}

ZeroMean permute_zero_mean(const At& x, const Lane& lane) {
  return needs(x, {{0, moved(lane, x.a().axes[lane.axis])}});
}
Shift permute_shift(const At& x, int, const Lane& lane) {
  const auto& axes = x.a().axes;
  const auto at = std::find(axes.begin(), axes.end(), lane.axis);
  return carries(moved(lane, static_cast<int>(at - axes.begin())));
}

ZeroMean slice_zero_mean(const At& x, const Lane& lane) {
  if (lane.axis != x.a().axis) return same_zero_mean(x, lane);
  return needs(x, {{0, {lane.axis, lane.start + x.a().start, lane.end + x.a().start, lane.block}}});
}

// The groups that the window [from, to) keeps whole, or the one that it cuts.
Shift windowed(const Lane& lane, int64_t from, int64_t to, int64_t offset) {
  const int64_t start = std::max(lane.start, from), end = std::min(lane.end, to);
  if (start >= end) return blind();
  const bool aligned = (start - lane.start) % lane.block == 0 && (end - start) % lane.block == 0;
  const bool inside = (start - lane.start) / lane.block == (end - 1 - lane.start) / lane.block;
  if (!aligned && !inside) return spoils("cuts the axis");
  return carries({lane.axis, start + offset, end + offset, inside ? end - start : lane.block});
}
Shift slice_shift(const At& x, int, const Lane& lane) {
  if (lane.axis != x.a().axis) return carries(lane);
  return windowed(lane, x.a().start, x.a().end, -x.a().start);
}

// Along the axis: parts that are each zero-mean are so together.
ZeroMean concat_zero_mean(const At& x, const Lane& lane) {
  ZeroMean r{ZeroMean::needs, {}, {}};
  int64_t at = 0;
  for (size_t i = 0; i < x.node.inputs.size(); ++i) {
    const int64_t n = x.a().extents[i], from = std::max(lane.start, at),
                  to = std::min(lane.end, at + n);
    Lane part = lane;
    if (lane.axis == x.a().axis) {
      if (from >= to) {
        at += n;
        continue;
      }
      const bool aligned = (from - lane.start) % lane.block == 0 && (to - from) % lane.block == 0;
      const bool inside =
          (from - lane.start) / lane.block == (to - 1 - lane.start) / lane.block && to - from == n;
      // Either the part is made of whole groups, or the group of whole parts.
      if (!aligned && !inside) return breaks("cuts the axis");
      part = {lane.axis, from - at, to - at, aligned ? lane.block : n};
      at += n;
    }
    r.inputs.push_back({x.node.inputs[i], part});
  }
  return r;
}
Shift concat_shift(const At& x, int i, const Lane& lane) {
  if (std::count(x.node.inputs.begin(), x.node.inputs.end(), x.node.inputs[i]) > 1) {
    return lane.axis == x.a().axis ? spoils("repeats it along the axis") : carries(lane);
  }
  if (lane.axis != x.a().axis) return carries(lane);
  int64_t at = 0;
  for (int k = 0; k < i; ++k) at += x.a().extents[k];
  return carries({lane.axis, lane.start + at, lane.end + at, lane.block});
}

ZeroMean roll_zero_mean(const At& x, const Lane& lane) {
  const auto& axes = x.a().axes;
  const bool along = std::find(axes.begin(), axes.end(), lane.axis) != axes.end();
  if (along && !is_whole(lane, x.out())) return breaks("rolls parts of the axis into each other");
  return needs(x, {{0, lane}});
}
Shift roll_shift(const At& x, int, const Lane& lane) {
  const auto& axes = x.a().axes;
  const bool along = std::find(axes.begin(), axes.end(), lane.axis) != axes.end();
  if (along && !is_whole(lane, x.out())) return spoils("rolls parts of the axis into each other");
  return carries(lane);
}

// Zeros beside a zero-mean part; other values only beside other axes' lanes, where they are a
// constant of non-zero mean.
ZeroMean pad_zero_mean(const At& x, const Lane& lane) {
  const GraphAttributes& a = x.a();
  if (a.start == 0 && a.end == 0) return needs(x, {{0, lane}});
  if (a.value != 0) return breaks("pads with a value that is not zero");
  if (lane.axis != a.axis) return needs(x, {{0, lane}});
  if (!is_whole(lane, x.out())) return breaks("cuts the axis");
  return needs(x, {{0, whole_axis(x.in(0), lane.axis)}});
}
Shift pad_shift(const At& x, int, const Lane& lane) {
  if (lane.axis != x.a().axis) return carries(lane);
  return carries({lane.axis, lane.start + x.a().start, lane.end + x.a().start, lane.block});
}

// ---- sums over axes
// ------------------------------------------------------------------------------ The axis of the
// input that became `axis` of the output.
int before_reduction(const At& x, int axis) {
  if (x.a().keepdim) return axis;
  int kept = -1;
  for (int i = 0; i < x.in_rank(0); ++i) {
    if (std::find(x.a().axes.begin(), x.a().axes.end(), i) == x.a().axes.end()) ++kept;
    if (kept == axis) return i;
  }
  return -1;
}
bool reduces(const At& x, int axis) {
  return std::find(x.a().axes.begin(), x.a().axes.end(), axis) != x.a().axes.end();
}
ZeroMean reduce_zero_mean(const At& x, const Lane& lane) {
  const int axis = before_reduction(x, lane.axis);
  if (axis < 0 || reduces(x, axis)) return breaks("sums along the axis");
  return needs(x, {{0, moved(lane, axis)}});
}
Shift reduce_shift(const At& x, int, const Lane& lane) {
  if (reduces(x, lane.axis)) return spoils("sums along the axis, which is not blind to the mean");
  int axis = lane.axis;
  if (!x.a().keepdim) {
    for (int reduced : x.a().axes) axis -= reduced < lane.axis ? 1 : 0;
  }
  return carries(moved(lane, axis));
}

// ---- dropout
// -------------------------------------------------------------------------------------
ZeroMean element_dropout_zero_mean(const At& x, const Lane&) {
  std::string p = std::to_string(x.a().value);
  while (p.back() == '0') p.pop_back();
  return breaks("drops single elements in training (p = " + p + "), which leaves a mean");
}
Shift element_dropout_shift(const At&, int, const Lane&) {
  return spoils("drops single elements of it in training");
}
ZeroMean path_dropout_zero_mean(const At& x, const Lane& lane) {
  return lane.axis == 0 ? breaks("drops whole samples along the axis") : needs(x, {{0, lane}});
}
Shift path_dropout_shift(const At&, int, const Lane& lane) {
  return lane.axis == 0 ? spoils("drops parts along the axis") : carries(lane);
}
ZeroMean token_dropout_zero_mean(const At& x, const Lane& lane) {
  if (lane.axis != x.last()) return breaks("drops whole tokens along the axis");
  return needs(x, {{0, lane}});
}
Shift token_dropout_shift(const At& x, int, const Lane& lane) {
  return lane.axis == x.last() ? carries(lane) : spoils("drops parts along the axis");
}

ZeroMean no_zero_mean(const At&, const Lane&) { return breaks("does not keep a zero mean"); }

struct Row {
  const char* op;
  ZeroMean (*zero_mean)(const At&, const Lane&);
  Shift (*shift)(const At&, int input, const Lane&);
};

// The table (method.md 4). What is not here proves nothing: activations, max, norm, losses.
constexpr Row kTable[] = {
    {"add", sum_zero_mean, sum_shift},
    {"sub", sum_zero_mean, sum_shift},
    {"mul", product_zero_mean, product_shift},
    {"scale", same_zero_mean, same_shift},
    {"linear", linear_zero_mean, linear_shift},
    {"matmul", matmul_zero_mean, matmul_shift},
    {"conv2d", grouped_conv_zero_mean, conv_shift},
    {"attention", attention_zero_mean, attention_shift},
    {"attention_qkv", packed_attention_zero_mean, packed_attention_shift},
    {"embedding", embedding_zero_mean, embedding_shift},
    {"centered_embedding", centered_embedding_zero_mean, centered_embedding_shift},
    {"center", center_zero_mean, center_shift},
    {"layer_norm", layer_norm_zero_mean, layer_norm_shift},
    {"rms_norm", rms_norm_zero_mean, rms_norm_shift},
    {"softmax", no_zero_mean, softmax_shift},
    {"reshape", reshape_zero_mean, reshape_shift},
    {"permute", permute_zero_mean, permute_shift},
    {"slice", slice_zero_mean, slice_shift},
    {"concat", concat_zero_mean, concat_shift},
    {"roll", roll_zero_mean, roll_shift},
    {"pad", pad_zero_mean, pad_shift},
    {"sum", reduce_zero_mean, reduce_shift},
    {"mean", reduce_zero_mean, reduce_shift},
    {"dropout", element_dropout_zero_mean, element_dropout_shift},
    {"drop_path", path_dropout_zero_mean, path_dropout_shift},
    {"token_dropout", token_dropout_zero_mean, token_dropout_shift},
};

const Row* row_of(const std::string& op) {
  for (const Row& row : kTable) {
    if (op == row.op) return &row;
  }
  return nullptr;
}

}  // namespace

Lane whole_axis(const Shape& shape, int axis) {
  if (axis < 0) axis += static_cast<int>(shape.size());
  CBWC_CHECK(axis >= 0 && axis < static_cast<int>(shape.size()), "lane: no axis ", axis, " in ",
             to_string(shape));
  return {axis, 0, shape[axis], shape[axis]};
}

bool is_whole(const Lane& lane, const Shape& shape) {
  const int64_t n = shape[lane.axis];
  return lane.start == 0 && lane.end == n && lane.block == n;
}

std::string to_string(const Lane& lane) {
  return "axis " + std::to_string(lane.axis) + " [" + std::to_string(lane.start) + ", " +
         std::to_string(lane.end) + ") by " + std::to_string(lane.block);
}

ZeroMean zero_mean(const Graph& graph, int node, const Lane& lane) {
  const Row* row = row_of(graph.nodes[node].op);
  if (row == nullptr) return breaks("(" + graph.nodes[node].op + ") does not keep a zero mean");
  return row->zero_mean({graph, graph.nodes[node]}, lane);
}

Shift shift(const Graph& graph, int node, int input, const Lane& lane) {
  const Row* row = row_of(graph.nodes[node].op);
  if (row == nullptr) return spoils("(" + graph.nodes[node].op + ") is not blind to the mean");
  return row->shift({graph, graph.nodes[node]}, input, lane);
}

std::optional<Lane> reshaped(const Lane& lane, const Shape& from, const Shape& to) {
  const int64_t n = from[lane.axis], stride = trailing(from, lane.axis);
  const bool all = lane.start == 0 && lane.end == n;
  if (n == 0 || lane.block == 0) return std::nullopt;
  for (int b = static_cast<int>(to.size()) - 1; b >= 0; --b) {
    const int64_t m = to[b];
    // Axes of one element share their stride with a neighbour, which is the one meant.
    if (trailing(to, b) != stride || m == 0 || (m == 1 && n != 1)) continue;
    if (m == n) return Lane{b, lane.start, lane.end, lane.block};
    if (m % n == 0) {  // merged with axes to its left: every group again and again
      if (all) return Lane{b, 0, m, lane.block};
      const bool even = n % lane.block == 0 && lane.start % lane.block == 0;
      return even ? std::optional(Lane{b, 0, m, lane.block}) : std::nullopt;
    }
    if (n % m == 0) {  // split, this being the inner part
      if (lane.block % m == 0 && lane.start % m == 0) return Lane{b, 0, m, m};
      if (m % lane.block == 0 && lane.start % lane.block == 0) return Lane{b, 0, m, lane.block};
    }
    return std::nullopt;
  }
  return std::nullopt;
}

std::vector<std::string> zero_mean_table() {
  std::vector<std::string> ops;
  for (const Row& row : kTable) ops.push_back(row.op);
  return ops;
}

}  // namespace cbwc
