// The leaves of a zero-mean graph: parameters that can be centred so that a value gets zero mean
// along a lane (method.md 3).
#pragma once
#include <optional>
#include <vector>

#include "autograd/analysis/detector.h"

namespace cbwc {

struct Leaf {
  std::vector<CentredParameter> parts;  // all of them
  // Where the change that centring them makes enters the graph: a shift constant along the lane,
  // which the reader `skip` (-1: none) does not get from here.
  struct Source {
    int value;
    Lane lane;
    int skip = -1;
  };
  std::vector<Source> sources;
  std::string name() const { return parts.empty() ? projected : parts[0].layer; }
  std::string projected = {};  // no parameter: a norm's output is centred, its mean carried
};

// A parameter in itself; a Linear whose output a per-channel gain scales; Linears of one input that
// are concatenated along the axis. Nothing for other values.
std::optional<Leaf> find_producer(const Graph& graph, int value, const Lane& lane);

}  // namespace cbwc
