#include "autograd/analysis/detector.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "autograd/analysis/detector_core.h"

namespace cbwc {
namespace {

// Of several failed demands: the only one, or none, or several.
constexpr int kNone = -1, kSeveral = -2;
int either(int a, int b) { return a == kNone || a == b ? b : (b == kNone ? a : kSeveral); }

}  // namespace

// ---- the algorithm

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

// Which demands stand: asked backwards from the norms, with the leaves' shifts followed forwards.
void Detector::analyse() {
  result_.zero_mean_nodes.assign(graph_.nodes.size(), false);
  find_norms();
  settle();
  if (carry_mean_) serve_readers();
  fail_upwards();
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

// A leaf with a bad reader fails, and with it all that rests on it. The nearest failure is the one
// that is told.
void Detector::fail_upwards() {
  std::vector<int> queue;
  for (int d = 0; d < static_cast<int>(demands_.size()); ++d) {
    Demand& x = demands_[d];
    if (x.leaf >= 0) {
      for (int w : leaf_waves_[x.leaf]) {
        if (!waves_.spoilt(w)) continue;
        fail(d, waves_.spoiler(w),
             waves_.reason(w) + "; so " + leaves_[x.leaf].name() + " cannot be centred");
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

// ---- demands

int Detector::demand(int value, const Lane& lane) {
  const auto [at, fresh] = demand_of_.try_emplace({value, lane}, static_cast<int>(demands_.size()));
  if (fresh) {
    demands_.push_back({.value = value, .lane = lane, .children = {}, .parents = {}, .reason = {}});
    open_demands_.push_back(at->second);
  }
  return at->second;
}

// A value's zero mean is asked for: a layer can give it, or its producer passes the question on to
// its inputs, or it fails.
void Detector::expand(int d) {
  const int value = demands_[d].value;
  const Lane lane = demands_[d].lane;
  const int producer = graph_.values[value].producer;
  if (lane.empty()) return fail(d, producer, "has an axis without elements");
  if (std::optional<Leaf> leaf = find_producer(graph_, value, lane)) {
    return add_leaf(d, std::move(*leaf));
  }
  if (producer < 0) return fail(d, -1, "is made by no layer");
  const ZeroMean rule = zero_mean(graph_, producer, lane);
  if (rule.kind == ZeroMean::breaks) {
    if (!carry_mean_ || !project_norm(d)) fail(d, producer, rule.reason);
    return;
  }
  for (const ZeroMean::Need& need : rule.inputs) {
    const int child = demand(need.value, need.lane);
    demands_[d].children.push_back(child);
    demands_[child].parents.push_back(d);
  }
}

void Detector::fail(int d, int node, const std::string& reason) {
  demands_[d].fails = true;
  demands_[d].node = node;
  demands_[d].reason = reason;
}

void Detector::add_leaf(int d, Leaf leaf) {
  demands_[d].leaf = static_cast<int>(leaves_.size());
  leaves_.push_back(std::move(leaf));
}

bool Detector::whole_last(const Demand& d) const {
  const Shape& shape = graph_.values[d.value].shape;
  return d.lane.axis + 1 == static_cast<int>(shape.size()) && is_whole(d.lane, shape);
}

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

// ---- what a norm rests on

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

// ---- the report

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

}  // namespace cbwc
