// Note [Zero-mean streams]. Two facts about a value, each along a lane (method.md 4):
//   zero mean        every group of the lane sums to zero;
//   constant shift   what centring a layer changes in it: one number per group of the lane.
// zero_mean.cpp is one table, a row per op: what its inputs need for its output to have the first,
// and how the second passes through it; the rules that it names are in zero_mean_rules_*.cpp. An op
// without a row proves nothing.
#pragma once
#include <string>
#include <vector>

#include "autograd/analysis/graph.h"
#include "autograd/analysis/lane.h"

namespace cbwc {

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

// The ops that have a row.
std::vector<std::string> zero_mean_table();

}  // namespace cbwc
