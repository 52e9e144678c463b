#include "autograd/analysis/detector.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "autograd/analysis/producers.h"

namespace cbwc {
namespace {

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

// A shift along a lane and where it goes.
struct Wave {
  int value;
  Lane lane;
  int skip;  // a reader that is accounted for elsewhere
  std::vector<int> parents;
  std::vector<int> ties;  // nodes
  bool spoilt = false;
  int node = -1;  // the reader that is not blind (-1: a declared output)
  std::string reason;
};

// Why one pass is the fixed point of method.md 5: what a leaf's shift does to its readers does not
// depend on which other leaves are centred, for a LayerNorm is blind whether it is folded or not.
// So the leaves with a bad reader are known at once, and the norms that rest on one of them fail.
class Detector {
 public:
  explicit Detector(const Graph& graph) : graph_(graph) {}
  Detection run();

 private:
  struct Norm {
    DetectedNorm report;
    std::vector<int> demands;
  };
  int demand(int value, const Lane& lane);
  int wave(int value, const Lane& lane, int skip);
  void find_norms();
  void expand(int d);
  void follow(int w);
  void pass_on(int w, int reader);
  void spoil(int w, int node, const std::string& reason);
  void send_waves();
  void fail_upwards();
  std::vector<int> sole_roots() const;
  void judge(Norm& norm);
  void propose_auxiliary();
  int auxiliary_waves(int d);
  void gather(Norm& norm, bool foldable);
  void find_ties();
  void list_parts(const std::set<int>& leaves, std::vector<CentredParameter>& out) const;

  const Graph& graph_;
  std::vector<Norm> norms_;
  std::vector<Demand> demands_;
  std::vector<Leaf> leaves_;
  std::vector<std::vector<int>> leaf_waves_;
  std::vector<Wave> waves_;
  std::map<std::pair<int, Lane>, int> demand_of_;
  std::map<std::tuple<int, int, Lane>, int> wave_of_;
  std::vector<int> open_demands_, open_waves_;
  std::map<std::pair<std::string, std::string>, std::vector<int>> calls_;  // nodes by module and op
  std::set<int> centre_, centre_auxiliary_;                                // leaves
  Detection result_;
};

int Detector::demand(int value, const Lane& lane) {
  const auto [at, fresh] = demand_of_.try_emplace({value, lane}, static_cast<int>(demands_.size()));
  if (fresh) {
    demands_.push_back({.value = value, .lane = lane, .children = {}, .parents = {}, .reason = {}});
    open_demands_.push_back(at->second);
  }
  return at->second;
}

int Detector::wave(int value, const Lane& lane, int skip) {
  const auto [at, fresh] =
      wave_of_.try_emplace({value, skip, lane}, static_cast<int>(waves_.size()));
  if (fresh) {
    waves_.push_back(
        {.value = value, .lane = lane, .skip = skip, .parents = {}, .ties = {}, .reason = {}});
    open_waves_.push_back(at->second);
  }
  return at->second;
}

void Detector::find_norms() {
  std::map<std::string, size_t> by_name;
  for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
    const GraphNode& node = graph_.nodes[n];
    if (node.op != "layer_norm") continue;
    const auto [at, fresh] = by_name.try_emplace(graph_.node_name(n), norms_.size());
    if (fresh) {
      norms_.push_back({});
      norms_.back().report.name = at->first;
      norms_.back().report.eps = node.attributes.eps;
    }
    Norm& norm = norms_[at->second];
    norm.report.nodes.push_back(n);
    norm.demands.push_back(
        demand(node.inputs[0], whole_axis(graph_.values[node.inputs[0]].shape, -1)));
  }
}

void Detector::expand(int d) {
  const int value = demands_[d].value;
  const Lane lane = demands_[d].lane;
  const GraphValue& v = graph_.values[value];
  const auto fail = [&](int node, const std::string& reason) {
    demands_[d].fails = true;
    demands_[d].node = node;
    demands_[d].reason = reason;
  };
  if (lane.block == 0) return fail(v.producer, "has an axis without elements");
  if (std::optional<Leaf> leaf = find_producer(graph_, value, lane)) {
    demands_[d].leaf = static_cast<int>(leaves_.size());
    leaves_.push_back(std::move(*leaf));
    return;
  }
  if (v.producer < 0) return fail(-1, "is made by no layer");
  const ZeroMean rule = zero_mean(graph_, v.producer, lane);
  if (rule.kind == ZeroMean::breaks) return fail(v.producer, rule.reason);
  for (const ZeroMean::Need& need : rule.inputs) {
    const int child = demand(need.value, need.lane);
    demands_[d].children.push_back(child);
    demands_[child].parents.push_back(d);
  }
}

void Detector::spoil(int w, int node, const std::string& reason) {
  if (waves_[w].spoilt) return;
  waves_[w].spoilt = true;
  waves_[w].node = node;
  waves_[w].reason = reason;
}

// What one reader makes of a wave, whichever of its inputs it comes in by.
void Detector::pass_on(int w, int reader) {
  const GraphNode& node = graph_.nodes[reader];
  const int value = waves_[w].value;
  for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
    if (node.inputs[i] != value) continue;
    const Shift s = shift(graph_, reader, i, waves_[w].lane);
    switch (s.kind) {
      case Shift::blind:
        break;
      case Shift::tied:
        if (graph_.values[value].parameter.empty()) {
          spoil(w, reader, s.reason);
        } else {
          waves_[w].ties.push_back(reader);
        }
        break;
      case Shift::carries:
        for (int out : node.outputs) {
          const int next = wave(out, s.lane, -1);
          waves_[next].parents.push_back(w);
        }
        break;
      case Shift::spoils:
        spoil(w, reader, s.reason);
    }
  }
}

void Detector::follow(int w) {
  const GraphValue& v = graph_.values[waves_[w].value];
  if (v.output) spoil(w, -1, "is an output of the network");
  for (int reader : v.readers) {
    if (reader != waves_[w].skip) pass_on(w, reader);
  }
}

// Follows every open wave to its end, then tells its sources what it met.
void Detector::send_waves() {
  for (size_t i = 0; i < open_waves_.size(); ++i) follow(open_waves_[i]);
  open_waves_.clear();
  std::vector<int> queue;
  for (size_t w = 0; w < waves_.size(); ++w) {
    if (waves_[w].spoilt) queue.push_back(static_cast<int>(w));
  }
  for (size_t i = 0; i < queue.size(); ++i) {
    const Wave& met = waves_[queue[i]];
    const int node = met.node < 0 ? graph_.values[met.value].producer : met.node;
    for (int parent : met.parents) {
      if (waves_[parent].spoilt) continue;
      spoil(parent, node, met.reason);
      queue.push_back(parent);
    }
  }
}

// The nearest failure is the one that is told.
void Detector::fail_upwards() {
  std::vector<int> queue;
  for (int d = 0; d < static_cast<int>(demands_.size()); ++d) {
    Demand& x = demands_[d];
    if (x.leaf >= 0) {
      for (int w : leaf_waves_[x.leaf]) {
        if (!waves_[w].spoilt) continue;
        x.fails = true;
        x.node = waves_[w].node < 0 ? graph_.values[waves_[w].value].producer : waves_[w].node;
        x.reason =
            waves_[w].reason + "; so " + leaves_[x.leaf].parts[0].layer + " cannot be centred";
        break;
      }
    }
    if (!x.fails) continue;
    x.root = d;
    queue.push_back(d);
  }
  for (size_t i = 0; i < queue.size(); ++i) {
    for (int parent : demands_[queue[i]].parents) {
      if (demands_[parent].fails) continue;
      demands_[parent].fails = true;
      demands_[parent].root = demands_[queue[i]].root;
      queue.push_back(parent);
    }
  }
}

constexpr int kNone = -1, kSeveral = -2;
int either(int a, int b) { return a == kNone || a == b ? b : (b == kNone ? a : kSeveral); }

// Per demand: the one demand below it that fails by itself, or none, or several.
std::vector<int> Detector::sole_roots() const {
  std::vector<int> order(demands_.size()), sole(demands_.size(), kNone);
  std::iota(order.begin(), order.end(), 0);
  // Inputs are made before outputs, so children come first.
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return graph_.values[demands_[a].value].producer < graph_.values[demands_[b].value].producer;
  });
  for (int d : order) {
    if (demands_[d].root == d) sole[d] = d;
    for (int child : demands_[d].children) sole[d] = either(sole[d], sole[child]);
  }
  return sole;
}

void Detector::judge(Norm& norm) {
  DetectedNorm& r = norm.report;
  for (int d : norm.demands) {
    if (!demands_[d].fails) continue;
    d = demands_[d].root;
    r.blocking = demands_[d].node < 0 ? "input" : graph_.node_name(demands_[d].node);
    r.reason = r.blocking + " " + demands_[d].reason;
    return;
  }
  r.verdict = Verdict::foldable;
  gather(norm, true);
  const std::string n = std::to_string(r.leaves.size());
  r.reason = r.leaves.empty() ? "its input has zero mean already"
                              : "every path back ends in a parameter that can be centred (" + n +
                                    "), and all that reads the change is blind to it";
}

// Collects the norm's leaves and its part of the graph.
void Detector::gather(Norm& norm, bool foldable) {
  std::vector<int> stack = norm.demands;
  std::set<int> seen;
  std::set<std::string> names;
  while (!stack.empty()) {
    const int d = stack.back();
    stack.pop_back();
    if (demands_[d].root == d) continue;  // an auxiliary P serves it
    if (!seen.insert(d).second) continue;
    if (demands_[d].leaf >= 0) {
      (foldable ? centre_ : centre_auxiliary_).insert(demands_[d].leaf);
      for (const CentredParameter& p : leaves_[demands_[d].leaf].parts) names.insert(p.parameter);
    }
    const int producer = graph_.values[demands_[d].value].producer;
    if (foldable && producer >= 0) result_.zero_mean_nodes[producer] = true;
    stack.insert(stack.end(), demands_[d].children.begin(), demands_[d].children.end());
  }
  norm.report.leaves.assign(names.begin(), names.end());
}

// Starts the waves of a P on the output of the node that fails demand d; -1 where none can go.
int Detector::auxiliary_waves(int d) {
  const Demand& x = demands_[d];
  if (x.leaf >= 0 || x.node < 0) return -1;
  const GraphNode& at = graph_.nodes[x.node];
  int first = wave(x.value, x.lane, -1);
  // The module's other calls get the P too.
  for (int n : calls_[{at.module, at.op}]) {
    for (int out : graph_.nodes[n].outputs) {
      if (out == x.value || graph_.values[out].shape.size() != graph_.values[x.value].shape.size())
        continue;
      const int w = wave(out, whole_axis(graph_.values[out].shape, x.lane.axis), -1);
      waves_[w].parents.push_back(first);
    }
  }
  return first;
}

// One P at a single tensor, where that serves at least two norms.
void Detector::propose_auxiliary() {
  std::map<int, std::vector<Norm*>> served;  // by demand
  const std::vector<int> sole = sole_roots();
  for (Norm& norm : norms_) {
    int root = kNone;
    for (int d : norm.demands) root = either(root, sole[d]);
    if (root >= 0) served[root].push_back(&norm);
  }
  for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
    const GraphNode& node = graph_.nodes[n];
    if (!node.module.empty()) calls_[{node.module, node.op}].push_back(n);
  }
  std::map<int, int> waves;
  for (const auto& [d, norms] : served) {
    const Demand& x = demands_[d];
    const bool whole = x.lane.block > 0 && is_whole(x.lane, graph_.values[x.value].shape);
    if (norms.size() >= 2 && whole) waves[d] = auxiliary_waves(d);
  }
  send_waves();
  for (const auto& [d, w] : waves) {
    if (w < 0 || waves_[w].spoilt) continue;
    const std::string module = graph_.node_name(demands_[d].node);
    const int n = static_cast<int>(served[d].size());
    result_.auxiliary.push_back({module, demands_[d].value, demands_[d].lane, n});
    for (Norm* norm : served[d]) {
      norm->report.verdict = Verdict::foldable_with_auxiliary;
      norm->report.auxiliary = {module};
      norm->report.reason += "; one centring of its output would serve " + std::to_string(n) +
                             " norms (price: 1 centring against " + std::to_string(n) + " removed)";
      gather(*norm, false);
    }
  }
}

void Detector::list_parts(const std::set<int>& leaves, std::vector<CentredParameter>& out) const {
  int groups = 0;
  for (int l : leaves) {
    int most = 0;
    for (CentredParameter part : leaves_[l].parts) {
      most = std::max(most, part.together);
      if (part.together > 0) part.together += groups;
      out.push_back(part);
    }
    groups += most;
  }
}

void Detector::find_ties() {
  std::set<std::pair<std::string, std::string>> found;
  for (const std::set<int>& leaves : {centre_, centre_auxiliary_}) {
    for (int l : leaves) {
      for (int w : leaf_waves_[l]) {
        for (int node : waves_[w].ties) {
          found.insert({graph_.values[waves_[w].value].parameter, graph_.node_name(node)});
        }
      }
    }
  }
  for (const auto& [parameter, head] : found) result_.ties.push_back({parameter, head});
}

Detection Detector::run() {
  const auto start = std::chrono::steady_clock::now();
  result_.zero_mean_nodes.assign(graph_.nodes.size(), false);
  find_norms();
  for (size_t i = 0; i < open_demands_.size(); ++i) expand(open_demands_[i]);
  for (const Leaf& leaf : leaves_) {
    leaf_waves_.emplace_back();
    for (const Leaf::Source& s : leaf.sources) {
      leaf_waves_.back().push_back(wave(s.value, s.lane, s.skip));
    }
  }
  send_waves();
  fail_upwards();
  for (Norm& norm : norms_) judge(norm);
  propose_auxiliary();
  for (Norm& norm : norms_) result_.norms.push_back(std::move(norm.report));
  list_parts(centre_, result_.centre);
  for (int l : centre_) centre_auxiliary_.erase(l);
  list_parts(centre_auxiliary_, result_.centre_auxiliary);
  find_ties();
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  result_.elapsed_ms = spent.count();
  return std::move(result_);
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::foldable:
      return "foldable";
    case Verdict::foldable_with_auxiliary:
      return "foldable_with_auxiliary";
    case Verdict::not_foldable:
      break;
  }
  return "not_foldable";
}

int Detection::count(Verdict verdict) const {
  return static_cast<int>(std::count_if(
      norms.begin(), norms.end(), [&](const DetectedNorm& n) { return n.verdict == verdict; }));
}

Detection detect(const Graph& graph) { return Detector(graph).run(); }

}  // namespace cbwc
