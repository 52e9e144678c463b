// Follows shifts through a graph (Note [Zero-mean streams]) and tells which of them meet a reader
// that is not blind. With carried means, such a reader is served instead wherever the shift is
// still one number along the whole last axis: there the mean can be added back (method.md 5).
#pragma once
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "autograd/analysis/zero_mean.h"

namespace cbwc {

class Waves {
 public:
  Waves(const Graph& graph, bool carry_mean) : graph_(graph), carry_mean_(carry_mean) {}

  // A shift in `value`, which the reader `skip` (-1: none) does not get from here. The same number
  // for the same arguments.
  int start(int value, const Lane& lane, int skip = -1);
  // Whatever spoils `wave` spoils `source` too.
  void join(int source, int wave) { waves_[wave].sources.push_back({source, -1}); }
  // Follows what was started to its end. May be called again after more was started.
  void send();

  bool spoilt(int wave) const { return waves_[wave].spoilt; }
  int spoiler(int wave) const { return waves_[wave].node; }  // a node; -1: none made the value
  const std::string& reason(int wave) const { return waves_[wave].reason; }
  const std::vector<int>& ties(int wave) const { return waves_[wave].ties; }  // nodes
  // Where the means of these waves, and of what they became, are added back: a value and the node
  // that reads it. None when every reader is blind.
  using Servings = std::set<std::pair<int, int>>;
  Servings served(const std::vector<int>& waves) const;

 private:
  struct Source {
    int wave, reader;
  };
  struct Wave {
    int value;
    Lane lane;
    int skip;
    std::vector<Source> sources = {};
    std::vector<int> next = {}, ties = {}, served = {}, blind = {};
    bool spoilt = false;
    int node = -1;
    std::string reason = {};
  };
  void follow(int w);
  void pass_on(int w, int reader);
  void spoil(int w, int node, const std::string& reason);
  bool can_serve(int w) const;

  const Graph& graph_;
  const bool carry_mean_;
  std::vector<Wave> waves_;
  std::map<std::tuple<int, int, Lane>, int> numbers_;
  size_t followed_ = 0;
};

}  // namespace cbwc
