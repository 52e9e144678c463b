// Inside the analysis: the detector's parts, for detector.cpp (the algorithm of method.md 5) and
// detector_carried.cpp (what carrying the removed means adds to it).
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autograd/analysis/detector.h"
#include "autograd/analysis/producers.h"
#include "autograd/analysis/waves.h"

namespace cbwc {

// A question "has this value zero mean along this lane?" and what it rests on.
struct Demand {
  int value;
  Lane lane;
  std::vector<int> children, parents;  // demands
  int leaf = -1;                       // parameters to centre, or
  bool fails = false;
  int node = -1;       // that fails it, when it fails by itself (-1: an input of the network)
  std::string reason;  // a clause about that node, when it fails by itself
  int root = -1;       // the demand that makes it fail: itself, or the nearest below
};

// Why one pass is the fixed point of method.md 5: what a leaf's shift does to its readers does not
// depend on which other leaves are centred, for a LayerNorm is blind whether it is folded or not.
// So the leaves with a bad reader are known at once, and the norms that rest on one of them fail.
// Nor do two centrings of one parameter along one axis undo each other: where both stand, each
// one's norms are blind to the other, so that their groups are the same or apart.
class Detector {
 public:
  explicit Detector(const Graph& graph, bool carry_mean = false)
      : graph_(graph), carry_mean_(carry_mean), waves_(graph, carry_mean) {}
  Detection run();
  // On a detector with carry_mean; `plain` are the verdicts without.
  Detection run_carried(const Detection& plain);

 private:
  struct Norm {
    DetectedNorm report;
    std::vector<int> demands;
  };

  // The steps.
  void analyse();
  void find_norms();
  void settle();
  void fail_upwards();
  void judge(Norm& norm);
  void propose_auxiliary();
  void find_ties();

  // Demands.
  int demand(int value, const Lane& lane);
  void expand(int d);
  void fail(int d, int node, const std::string& reason);
  void add_leaf(int d, Leaf leaf);
  bool whole_last(const Demand& d) const;
  std::vector<int> sole_roots() const;
  std::vector<int> outputs_like(int node);

  // What a norm rests on.
  std::set<int> below(const Norm& norm) const;
  std::set<int> leaves_of(const Norm& norm) const;
  void gather(Norm& norm, std::set<int>& centre);
  void list_parts(const std::set<int>& leaves, std::vector<CentredParameter>& out) const;
  std::set<std::string> writers_of(const Leaf::Source& source) const;

  // Carried means (detector_carried.cpp).
  bool project_norm(int d);
  void serve_readers();
  void demand_streams(Norm& norm) const;
  std::set<std::string> carry_needs(const Norm& norm) const;
  std::vector<bool> worth_carrying(const Detection& plain);
  void list_carried();

  const Graph& graph_;
  const bool carry_mean_;
  std::vector<Norm> norms_;
  std::vector<Demand> demands_;
  std::vector<Leaf> leaves_;
  std::vector<std::vector<int>> leaf_waves_;
  Waves waves_;
  std::map<std::pair<int, Lane>, int> demand_of_;
  std::vector<int> open_demands_;
  size_t settled_ = 0;
  std::map<std::pair<std::string, std::string>, std::vector<int>> calls_;  // nodes by module and op
  std::set<int> centre_, centre_auxiliary_;                                // leaves
  Detection result_;
};

}  // namespace cbwc
