#include "autograd/analysis/zero_mean_rules.h"

#include <algorithm>

namespace cbwc {
namespace {

// ---- moving elements

ZeroMean same_zero_mean(const OpView& x, const Lane& lane) { return needs(x, {{0, lane}}); }
Shift same_shift(const OpView&, int, const Lane& lane) { return carries(lane); }

ZeroMean reshape_zero_mean(const OpView& x, const Lane& lane) {
  const auto l = reshaped(lane, x.out(), x.in(0));
  return l ? needs(x, {{0, *l}}) : breaks("reshapes several axes into the normalised one");
}
Shift reshape_shift(const OpView& x, int, const Lane& lane) {
  const auto l = reshaped(lane, x.in(0), x.out());
  return l ? carries(*l) : spoils("reshapes the axis into others");
}

ZeroMean permute_zero_mean(const OpView& x, const Lane& lane) {
  return needs(x, {{0, moved(lane, x.a().axes[lane.axis])}});
}
Shift permute_shift(const OpView& x, int, const Lane& lane) {
  const auto& axes = x.a().axes;
  const auto at = std::find(axes.begin(), axes.end(), lane.axis);
  return carries(moved(lane, static_cast<int>(at - axes.begin())));
}

ZeroMean slice_zero_mean(const OpView& x, const Lane& lane) {
  if (lane.axis != x.a().axis) return same_zero_mean(x, lane);
  return needs(x, {{0, {lane.axis, lane.start + x.a().start, lane.end + x.a().start, lane.block}}});
}

// Of the lane's groups, what the indices [start, end) of its axis hold.
bool whole_groups(const Lane& lane, int64_t start, int64_t end) {
  return (start - lane.start) % lane.block == 0 && (end - start) % lane.block == 0;
}
bool in_one_group(const Lane& lane, int64_t start, int64_t end) {
  return (start - lane.start) / lane.block == (end - 1 - lane.start) / lane.block;
}

// The groups that are kept whole, or the one that is cut.
Shift slice_shift(const OpView& x, int, const Lane& lane) {
  if (lane.axis != x.a().axis) return carries(lane);
  const int64_t from = x.a().start, start = std::max(lane.start, from),
                end = std::min(lane.end, x.a().end);
  if (start >= end) return blind();
  const Lane kept = {lane.axis, start - from, end - from, lane.block};
  if (whole_groups(lane, start, end)) return carries(kept);
  if (!in_one_group(lane, start, end)) return spoils("cuts the axis");
  return carries({kept.axis, kept.start, kept.end, end - start});
}

// Along the axis: parts that are each zero-mean are so together. A part is made of whole groups, or
// is itself a piece of one group.
ZeroMean concat_zero_mean(const OpView& x, const Lane& lane) {
  ZeroMean r{ZeroMean::needs, {}, {}};
  const bool along = lane.axis == x.a().axis;
  int64_t at = 0;
  for (size_t i = 0; i < x.node.inputs.size(); ++i) {
    const int64_t n = x.a().extents[i], start = std::max(lane.start, at),
                  end = std::min(lane.end, at + n);
    Lane part = lane;
    if (along) {
      part = {lane.axis, start - at, end - at, lane.block};
      at += n;
      if (part.empty()) continue;
      if (!whole_groups(lane, start, end)) {
        if (!in_one_group(lane, start, end) || end - start != n) return breaks("cuts the axis");
        part.block = n;
      }
    }
    r.inputs.push_back({x.node.inputs[i], part});
  }
  return r;
}
Shift concat_shift(const OpView& x, int i, const Lane& lane) {
  if (std::count(x.node.inputs.begin(), x.node.inputs.end(), x.node.inputs[i]) > 1) {
    return lane.axis == x.a().axis ? spoils("repeats it along the axis") : carries(lane);
  }
  if (lane.axis != x.a().axis) return carries(lane);
  int64_t at = 0;
  for (int k = 0; k < i; ++k) at += x.a().extents[k];
  return carries({lane.axis, lane.start + at, lane.end + at, lane.block});
}

ZeroMean roll_zero_mean(const OpView& x, const Lane& lane) {
  const auto& axes = x.a().axes;
  const bool along = std::find(axes.begin(), axes.end(), lane.axis) != axes.end();
  if (along && !is_whole(lane, x.out())) return breaks("rolls parts of the axis into each other");
  return needs(x, {{0, lane}});
}
Shift roll_shift(const OpView& x, int, const Lane& lane) {
  const auto& axes = x.a().axes;
  const bool along = std::find(axes.begin(), axes.end(), lane.axis) != axes.end();
  if (along && !is_whole(lane, x.out())) return spoils("rolls parts of the axis into each other");
  return carries(lane);
}

// Zeros keep it along the axis and beside it; another value makes groups that have a mean.
ZeroMean pad_zero_mean(const OpView& x, const Lane& lane) {
  const GraphAttributes& a = x.a();
  if (a.start == 0 && a.end == 0) return needs(x, {{0, lane}});
  if (a.value != 0) return breaks("pads with a value that is not zero");
  if (lane.axis != a.axis) return needs(x, {{0, lane}});
  if (!is_whole(lane, x.out())) return breaks("cuts the axis");
  return needs(x, {{0, whole_axis(x.in(0), lane.axis)}});
}
Shift pad_shift(const OpView& x, int, const Lane& lane) {
  if (lane.axis != x.a().axis) return carries(lane);
  return carries({lane.axis, lane.start + x.a().start, lane.end + x.a().start, lane.block});
}

// ---- sums over axes

// The axis of the input that became `axis` of the output.
int before_reduction(const OpView& x, int axis) {
  if (x.a().keepdim) return axis;
  int kept = -1;
  for (int i = 0; i < x.in_rank(0); ++i) {
    if (std::find(x.a().axes.begin(), x.a().axes.end(), i) == x.a().axes.end()) ++kept;
    if (kept == axis) return i;
  }
  return -1;
}
bool reduces(const OpView& x, int axis) {
  return std::find(x.a().axes.begin(), x.a().axes.end(), axis) != x.a().axes.end();
}
ZeroMean reduce_zero_mean(const OpView& x, const Lane& lane) {
  const int axis = before_reduction(x, lane.axis);
  if (axis < 0 || reduces(x, axis)) return breaks("sums along the axis");
  return needs(x, {{0, moved(lane, axis)}});
}
Shift reduce_shift(const OpView& x, int, const Lane& lane) {
  if (reduces(x, lane.axis)) return spoils("sums along the axis, which is not blind to the mean");
  int axis = lane.axis;
  if (!x.a().keepdim) {
    for (int reduced : x.a().axes) axis -= reduced < lane.axis ? 1 : 0;
  }
  return carries(moved(lane, axis));
}

// ---- dropout

ZeroMean element_dropout_zero_mean(const OpView& x, const Lane&) {
  std::string p = std::to_string(x.a().value);
  while (p.back() == '0') p.pop_back();
  return breaks("drops single elements in training (p = " + p + "), which leaves a mean");
}
Shift element_dropout_shift(const OpView&, int, const Lane&) {
  return spoils("drops single elements of it in training");
}
ZeroMean path_dropout_zero_mean(const OpView& x, const Lane& lane) {
  return lane.axis == 0 ? breaks("drops whole samples along the axis") : needs(x, {{0, lane}});
}
Shift path_dropout_shift(const OpView&, int, const Lane& lane) {
  return lane.axis == 0 ? spoils("drops parts along the axis") : carries(lane);
}
ZeroMean token_dropout_zero_mean(const OpView& x, const Lane& lane) {
  if (lane.axis != x.last()) return breaks("drops whole tokens along the axis");
  return needs(x, {{0, lane}});
}
Shift token_dropout_shift(const OpView& x, int, const Lane& lane) {
  return lane.axis == x.last() ? carries(lane) : spoils("drops parts along the axis");
}

}  // namespace

const ZeroMeanRule kSameRule = {same_zero_mean, same_shift};
const ZeroMeanRule kReshapeRule = {reshape_zero_mean, reshape_shift};
const ZeroMeanRule kPermuteRule = {permute_zero_mean, permute_shift};
const ZeroMeanRule kSliceRule = {slice_zero_mean, slice_shift};
const ZeroMeanRule kConcatRule = {concat_zero_mean, concat_shift};
const ZeroMeanRule kRollRule = {roll_zero_mean, roll_shift};
const ZeroMeanRule kPadRule = {pad_zero_mean, pad_shift};
const ZeroMeanRule kReduceRule = {reduce_zero_mean, reduce_shift};
const ZeroMeanRule kElementDropoutRule = {element_dropout_zero_mean, element_dropout_shift};
const ZeroMeanRule kPathDropoutRule = {path_dropout_zero_mean, path_dropout_shift};
const ZeroMeanRule kTokenDropoutRule = {token_dropout_zero_mean, token_dropout_shift};

}  // namespace cbwc
