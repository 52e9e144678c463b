#include "autograd/analysis/detector.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>

#include "autograd/analysis/producers.h"
#include "autograd/analysis/waves.h"

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

// Why one pass is the fixed point of method.md 5: what a leaf's shift does to its readers does not
// depend on which other leaves are centred, for a LayerNorm is blind whether it is folded or not.
// So the leaves with a bad reader are known at once, and the norms that rest on one of them fail.
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
  int demand(int value, const Lane& lane);
  void settle();
  void serve_readers();
  void demand_streams(Norm& norm) const;
  void analyse();
  void find_norms();
  void expand(int d);
  void fail_upwards();
  bool whole_last(const Demand& d) const;
  std::vector<int> sole_roots() const;
  void judge(Norm& norm);
  void propose_auxiliary();
  std::vector<int> outputs_like(int node);
  std::set<int> below(const Norm& norm) const;
  std::set<int> leaves_of(const Norm& norm) const;
  void gather(Norm& norm, std::set<int>& centre);
  std::set<std::string> carry_needs(const Norm& norm) const;
  std::set<std::string> writers_of(const Leaf::Source& source) const;
  void find_ties();
  void list_parts(const std::set<int>& leaves, std::vector<CentredParameter>& out) const;

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

int Detector::demand(int value, const Lane& lane) {
  const auto [at, fresh] = demand_of_.try_emplace({value, lane}, static_cast<int>(demands_.size()));
  if (fresh) {
    demands_.push_back({.value = value, .lane = lane, .children = {}, .parents = {}, .reason = {}});
    open_demands_.push_back(at->second);
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
  if (rule.kind == ZeroMean::breaks) {
    const std::string& op = graph_.nodes[v.producer].op;
    const bool norm = op == "layer_norm" || op == "rms_norm";
    if (!carry_mean_ || !norm || !whole_last(demands_[d])) return fail(v.producer, rule.reason);
    demands_[d].leaf = static_cast<int>(leaves_.size());
    leaves_.push_back({{}, {}, graph_.node_name(v.producer)});
    for (int out : outputs_like(v.producer)) {
      leaves_.back().sources.push_back({out, whole_axis(graph_.values[out].shape, -1)});
    }
    return;
  }
  for (const ZeroMean::Need& need : rule.inputs) {
    const int child = demand(need.value, need.lane);
    demands_[d].children.push_back(child);
    demands_[child].parents.push_back(d);
  }
}

// The nearest failure is the one that is told.
void Detector::fail_upwards() {
  std::vector<int> queue;
  for (int d = 0; d < static_cast<int>(demands_.size()); ++d) {
    Demand& x = demands_[d];
    if (x.leaf >= 0) {
      for (int w : leaf_waves_[x.leaf]) {
        if (!waves_.spoilt(w)) continue;
        x.fails = true;
        x.node = waves_.spoiler(w);
        x.reason = waves_.reason(w) + "; so " + leaves_[x.leaf].name() + " cannot be centred";
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

bool Detector::whole_last(const Demand& d) const {
  const Shape& shape = graph_.values[d.value].shape;
  return d.lane.axis + 1 == static_cast<int>(shape.size()) && is_whole(d.lane, shape);
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
  gather(norm, centre_);
  const std::string n = std::to_string(r.leaves.size());
  r.reason = r.leaves.empty() ? "its input has zero mean already"
                              : "every path back ends in a parameter that can be centred (" + n +
                                    "), and all that reads the change is blind to it";
}

// The demands that the norm rests on, without those that an auxiliary P would serve.
std::set<int> Detector::below(const Norm& norm) const {
  std::vector<int> stack = norm.demands;
  std::set<int> seen;
  while (!stack.empty()) {
    const int d = stack.back();
    stack.pop_back();
    if (demands_[d].root == d || !seen.insert(d).second) continue;
    stack.insert(stack.end(), demands_[d].children.begin(), demands_[d].children.end());
  }
  return seen;
}

std::set<int> Detector::leaves_of(const Norm& norm) const {
  std::set<int> leaves;
  for (int d : below(norm)) {
    if (demands_[d].leaf >= 0) leaves.insert(demands_[d].leaf);
  }
  return leaves;
}

// Lists the norm's leaves in its report and among those to centre, and marks its part of the graph.
void Detector::gather(Norm& norm, std::set<int>& centre) {
  const std::set<int> leaves = leaves_of(norm);
  centre.insert(leaves.begin(), leaves.end());
  std::set<std::string> names;
  for (int l : leaves) {
    for (const CentredParameter& p : leaves_[l].parts) names.insert(p.parameter);
  }
  norm.report.leaves.assign(names.begin(), names.end());
  if (norm.report.verdict != Verdict::foldable) return;
  for (int d : below(norm)) {
    const int producer = graph_.values[demands_[d].value].producer;
    if (producer >= 0) result_.zero_mean_nodes[producer] = true;
  }
}

// What a module returns, from all its calls of this node's kind.
std::vector<int> Detector::outputs_like(int node) {
  if (calls_.empty()) {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      calls_[{graph_.node_name(n), graph_.nodes[n].op}].push_back(n);
    }
  }
  std::vector<int> values;
  for (int n : calls_[{graph_.node_name(node), graph_.nodes[node].op}]) {
    const auto& outputs = graph_.nodes[n].outputs;
    values.insert(values.end(), outputs.begin(), outputs.end());
  }
  return values;
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
  std::map<int, std::vector<int>> waves;
  for (const auto& [d, norms] : served) {
    const Demand& x = demands_[d];
    if (norms.size() < 2 || x.leaf >= 0 || x.node < 0 || !whole_last(x)) continue;
    for (int out : outputs_like(x.node)) {
      waves[d].push_back(waves_.start(out, whole_axis(graph_.values[out].shape, -1)));
    }
  }
  waves_.send();
  for (const auto& [d, started] : waves) {
    const auto spoilt = [&](int w) { return waves_.spoilt(w); };
    if (std::any_of(started.begin(), started.end(), spoilt)) continue;
    const std::string module = graph_.node_name(demands_[d].node);
    const int n = static_cast<int>(served[d].size());
    result_.auxiliary.push_back({module, demands_[d].value, demands_[d].lane, n});
    for (Norm* norm : served[d]) {
      norm->report.verdict = Verdict::foldable_with_auxiliary;
      norm->report.auxiliary = {module};
      norm->report.reason += "; one centring of its output would serve " + std::to_string(n) +
                             " norms (price: 1 centring against " + std::to_string(n) + " removed)";
      gather(*norm, centre_auxiliary_);
    }
  }
}

void Detector::list_parts(const std::set<int>& leaves, std::vector<CentredParameter>& out) const {
  int groups = 0;  // both lists may be put together: their numbers differ
  for (const CentredParameter& c : result_.centre) groups = std::max(groups, c.together);
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

// The modules that carry a shift of the parameter on.
std::set<std::string> Detector::writers_of(const Leaf::Source& source) const {
  std::set<std::string> writers;
  for (int reader : graph_.values[source.value].readers) {
    const auto& in = graph_.nodes[reader].inputs;
    for (int i = 0; i < static_cast<int>(in.size()); ++i) {
      if (in[i] != source.value) continue;
      if (shift(graph_, reader, i, source.lane).kind != Shift::carries) continue;
      writers.insert(graph_.node_name(reader));
    }
  }
  return writers;
}

void Detector::find_ties() {
  std::map<std::pair<std::string, std::string>, std::set<std::string>> found;
  for (const std::set<int>& leaves : {centre_, centre_auxiliary_}) {
    for (int l : leaves) {
      for (size_t i = 0; i < leaf_waves_[l].size(); ++i) {
        for (int node : waves_.ties(leaf_waves_[l][i])) {
          found[{leaves_[l].parts[0].parameter, graph_.node_name(node)}].merge(
              writers_of(leaves_[l].sources[i]));
        }
      }
    }
  }
  for (const auto& [tie, writers] : found) {
    result_.ties.push_back({tie.first, tie.second, {writers.begin(), writers.end()}});
  }
}

// Answers every open demand and follows the shifts of the leaves that came of it.
void Detector::settle() {
  for (; settled_ < open_demands_.size(); ++settled_) expand(open_demands_[settled_]);
  while (leaf_waves_.size() < leaves_.size()) {
    std::vector<int> started;
    for (const Leaf::Source& s : leaves_[leaf_waves_.size()].sources) {
      started.push_back(waves_.start(s.value, s.lane, s.skip));
    }
    leaf_waves_.push_back(std::move(started));
  }
  waves_.send();
}

// A stream whose mean is added back somewhere must be zero-mean as a whole there, its mean beside
// it; and who sees it with the mean put back cannot take it for zero-mean.
void Detector::serve_readers() {
  Waves::Servings all;
  for (size_t before = 1; before != all.size();) {
    before = all.size();
    for (const std::vector<int>& waves : leaf_waves_) all.merge(waves_.served(waves));
    for (const auto& [value, node] : all) {
      demand(value, whole_axis(graph_.values[value].shape, -1));
    }
    settle();
    if (all.empty()) return;
  }
  for (Demand& d : demands_) {
    const int producer = graph_.values[d.value].producer;
    for (int child : d.children) {
      if (all.count({demands_[child].value, producer}) == 0) continue;
      d.fails = true;
      d.node = producer;
      d.reason = "gets the carried mean back";
    }
  }
}

void Detector::analyse() {
  result_.zero_mean_nodes.assign(graph_.nodes.size(), false);
  find_norms();
  settle();
  if (carry_mean_) serve_readers();
  fail_upwards();
}

Detection Detector::run() {
  analyse();
  for (Norm& norm : norms_) judge(norm);
  propose_auxiliary();
  for (Norm& norm : norms_) result_.norms.push_back(std::move(norm.report));
  list_parts(centre_, result_.centre);
  for (int l : centre_) centre_auxiliary_.erase(l);
  list_parts(centre_auxiliary_, result_.centre_auxiliary);
  find_ties();
  return std::move(result_);
}

// The centrings and additions that a norm needs beside its leaves, by what they are and where.
std::set<std::string> Detector::carry_needs(const Norm& norm) const {
  std::set<std::string> needs;
  for (int l : leaves_of(norm)) {
    if (!leaves_[l].projected.empty()) needs.insert("P " + leaves_[l].projected);
    for (const auto& [value, node] : waves_.served(leaf_waves_[l])) {
      needs.insert("+ " + graph_.node_name(node));
    }
  }
  return needs;
}

// The streams that the norm's mean is carried in must be zero-mean where it is added back.
void Detector::demand_streams(Norm& norm) const {
  std::set<int> asked(norm.demands.begin(), norm.demands.end());
  for (size_t before = 0; before != asked.size();) {
    before = asked.size();
    for (int l : leaves_of(norm)) {
      for (const auto& [value, node] : waves_.served(leaf_waves_[l])) {
        const int d = demand_of_.at({value, whole_axis(graph_.values[value].shape, -1)});
        if (asked.insert(d).second) norm.demands.push_back(d);
      }
    }
  }
}

Detection Detector::run_carried(const Detection& plain) {
  analyse();
  // Norms that share a centring or an addition are one stream.
  std::map<std::string, size_t> stream_of;  // by need -> norm that stands for the stream
  std::vector<size_t> stream(norms_.size());
  std::iota(stream.begin(), stream.end(), size_t{0});
  const auto find = [&](size_t i) {
    while (stream[i] != i) i = stream[i] = stream[stream[i]];
    return i;
  };
  std::vector<std::set<std::string>> needs(norms_.size());
  for (size_t i = 0; i < norms_.size(); ++i) {
    if (plain.norms[i].verdict != Verdict::not_foldable) continue;
    demand_streams(norms_[i]);
    judge(norms_[i]);
    if (norms_[i].report.verdict != Verdict::foldable) continue;
    needs[i] = carry_needs(norms_[i]);
    for (const std::string& need : needs[i]) {
      const auto [at, fresh] = stream_of.try_emplace(need, i);
      if (!fresh) stream[find(i)] = find(at->second);
    }
  }
  std::map<size_t, int> gain;  // of a stream: norms less centrings and additions
  for (size_t i = 0; i < norms_.size(); ++i) gain[find(i)] += needs[i].empty() ? 0 : 1;
  for (const auto& [need, norm] : stream_of) gain[find(norm)] -= 1;

  centre_.clear();
  result_.zero_mean_nodes.assign(graph_.nodes.size(), false);
  for (size_t i = 0; i < norms_.size(); ++i) {
    DetectedNorm& r = norms_[i].report;
    const bool carried = !needs[i].empty() && gain[find(i)] > 0;
    if (!carried) r = plain.norms[i];
    if (r.verdict == Verdict::foldable) gather(norms_[i], centre_);
    if (carried) {
      r.carried = true;
      r.reason = "foldable when the removed means are carried to the readers that need them";
      ++result_.carried.serves;
    }
    result_.norms.push_back(r);
  }
  std::set<std::string> projected, readers;
  Waves::Servings additions;
  for (int l : centre_) {
    const Waves::Servings served = waves_.served(leaf_waves_[l]);
    for (CentredParameter& part : leaves_[l].parts) part.carries_mean = !served.empty();
    if (!leaves_[l].projected.empty()) projected.insert(leaves_[l].projected);
    for (const auto& [value, node] : served) readers.insert(graph_.node_name(node));
    additions.insert(served.begin(), served.end());
  }
  result_.auxiliary = plain.auxiliary;
  result_.centre_auxiliary = plain.centre_auxiliary;
  list_parts(centre_, result_.centre);
  result_.carried.projected.assign(projected.begin(), projected.end());
  result_.carried.readers.assign(readers.begin(), readers.end());
  result_.carried.additions.assign(additions.begin(), additions.end());
  find_ties();
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

Detection detect(const Graph& graph, bool carry_mean) {
  const auto start = std::chrono::steady_clock::now();
  Detection result = Detector(graph).run();
  if (carry_mean && result.count(Verdict::foldable) < static_cast<int>(result.norms.size())) {
    result = Detector(graph, true).run_carried(result);
  }
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  result.elapsed_ms = spent.count();
  return result;
}

}  // namespace cbwc
