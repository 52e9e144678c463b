// Beyond the paper (method.md 5, "carrying the mean"): readers that are not blind get the removed
// mean back. A second analysis, in which waves are served where they can be and a norm's own output
// may be centred, and its prices.
#include <numeric>

#include "autograd/analysis/detector_core.h"

namespace cbwc {
namespace {

// Norms that share a centring or an addition are one stream: it pays as a whole or not at all.
class Streams {
 public:
  explicit Streams(size_t norms) : parent_(norms), gain_(norms, 0) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  void add(size_t norm, const std::set<std::string>& needs) {
    if (needs.empty()) return;
    gain_[find(norm)] += 1;
    for (const std::string& need : needs) {
      const auto [at, fresh] = first_.try_emplace(need, norm);
      fresh ? void(gain_[find(norm)] -= 1) : join(norm, at->second);
    }
  }
  // Norms that fold less centrings and additions.
  int gain(size_t norm) { return gain_[find(norm)]; }

 private:
  size_t find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    parent_[a] = b;
    gain_[b] += gain_[a];
  }

  std::vector<size_t> parent_;
  std::vector<int> gain_;                // of the norm that stands for the stream
  std::map<std::string, size_t> first_;  // by need: a norm that has it
};

}  // namespace

Detection Detector::run_carried(const Detection& plain) {
  analyse();
  const std::vector<bool> carried = worth_carrying(plain);
  centre_.clear();
  result_.zero_mean_nodes.assign(graph_.nodes.size(), false);
  for (size_t i = 0; i < norms_.size(); ++i) {
    DetectedNorm& r = norms_[i].report;
    if (!carried[i]) r = plain.norms[i];
    if (r.verdict == Verdict::foldable) gather(norms_[i], centre_);
    if (carried[i]) {
      r.carried = true;
      r.reason = "foldable when the removed means are carried to the readers that need them";
      ++result_.carried.serves;
    }
    result_.norms.push_back(r);
  }
  list_carried();
  result_.auxiliary = plain.auxiliary;
  result_.centre_auxiliary = plain.centre_auxiliary;
  list_parts(centre_, result_.centre);
  find_ties();
  return std::move(result_);
}

// The norms that fold only so, in the streams where that saves more than it costs.
std::vector<bool> Detector::worth_carrying(const Detection& plain) {
  Streams streams(norms_.size());
  std::vector<bool> candidate(norms_.size(), false);
  for (size_t i = 0; i < norms_.size(); ++i) {
    if (plain.norms[i].verdict != Verdict::not_foldable) continue;
    demand_streams(norms_[i]);
    judge(norms_[i]);
    if (norms_[i].report.verdict != Verdict::foldable) continue;
    const std::set<std::string> needs = carry_needs(norms_[i]);
    streams.add(i, needs);
    candidate[i] = !needs.empty();
  }
  for (size_t i = 0; i < norms_.size(); ++i) candidate[i] = candidate[i] && streams.gain(i) > 0;
  return candidate;
}

// What carrying costs, and which layers have one more channel.
void Detector::list_carried() {
  std::set<std::string> projected, readers;
  Waves::Servings additions;
  for (int l : centre_) {
    const Waves::Servings served = waves_.served(leaf_waves_[l]);
    for (CentredParameter& part : leaves_[l].parts) part.carries_mean = !served.empty();
    if (!leaves_[l].projected.empty()) projected.insert(leaves_[l].projected);
    for (const auto& [value, node] : served) readers.insert(graph_.node_name(node));
    additions.insert(served.begin(), served.end());
  }
  result_.carried.projected.assign(projected.begin(), projected.end());
  result_.carried.readers.assign(readers.begin(), readers.end());
  result_.carried.additions.assign(additions.begin(), additions.end());
}

// A norm whose affine output has a mean can be split into P y and its mean: a leaf of its own.
bool Detector::project_norm(int d) {
  const int node = graph_.values[demands_[d].value].producer;
  const std::string& op = graph_.nodes[node].op;
  if ((op != "layer_norm" && op != "rms_norm") || !whole_last(demands_[d])) return false;
  Leaf leaf{{}, {}, graph_.node_name(node)};
  for (int out : outputs_like(node)) {
    leaf.sources.push_back({out, whole_axis(graph_.values[out].shape, -1)});
  }
  add_leaf(d, std::move(leaf));
  return true;
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
  for (int d = 0; d < static_cast<int>(demands_.size()); ++d) {
    const int producer = graph_.values[demands_[d].value].producer;
    for (int child : demands_[d].children) {
      if (all.count({demands_[child].value, producer}) == 0) continue;
      fail(d, producer, "gets the carried mean back");
    }
  }
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

}  // namespace cbwc
