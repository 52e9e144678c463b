// Note [Zero-mean streams]. Two facts about a value, each along a lane (method.md 4):
//   zero mean        every group of the lane sums to zero;
//   constant shift   what centring a layer changes in it: one number per group of the lane.
// zero_mean.cpp is one table, a row per op: what its inputs need for its output to have the first,
// and how the second passes through it. An op without a row proves nothing.
#pragma once
#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "autograd/analysis/graph.h"

namespace cbwc {

// The groups of a value that lie along one axis: of the indices [start, end) every consecutive
// `block`, for each choice of the other indices.
struct Lane {
  int axis = 0;
  int64_t start = 0, end = 0, block = 0;
  auto operator<=>(const Lane&) const = default;
};
Lane whole_axis(const Shape& shape, int axis);  // one group: the whole axis; axis may be negative
bool is_whole(const Lane& lane, const Shape& shape);
std::string to_string(const Lane& lane);

// Backwards: does the node's output have zero mean along the lane?
struct ZeroMean {
  enum Kind { holds, needs, breaks } kind = breaks;
  struct Need {
    int value;
    Lane lane;
  };
  std::vector<Need> inputs = {};  // needs: all of them
  std::string reason = {};        // breaks: a clause that follows the node's name
};
ZeroMean zero_mean(const Graph& graph, int node, const Lane& lane);

// Forwards: what becomes of a shift that is constant along the lane in input number `input`.
struct Shift {
  enum Kind {
    blind,    // the node's result does not change
    carries,  // its output changes by a shift constant along `lane`
    spoils,   // its output changes in another way
    tied,     // the input is a weight whose input axis was centred: a tied head (method.md 5)
  } kind = spoils;
  Lane lane = {};
  std::string reason = {};  // spoils
};
Shift shift(const Graph& graph, int node, int input, const Lane& lane);

// The lane after a reshape, the flat order being the same. Where it is only partly expressible a
// finer or wider one: fine for a zero mean to be asked for, and for a shift to be feared.
std::optional<Lane> reshaped(const Lane& lane, const Shape& from, const Shape& to);

// The ops that have a row.
std::vector<std::string> zero_mean_table();

}  // namespace cbwc
