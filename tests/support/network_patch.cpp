#include "tests/support/network_patch.h"

#include "tests/support/lanes.h"

namespace cbwc::testing {

// Per-channel gains go into the parameters before them, once, and become one.
void NetworkPatch::scale(const std::vector<CentredParameter>& list) {
  std::set<std::string> done, gains;
  for (const CentredParameter& c : list) {
    if (c.scale.empty() || !done.insert(c.parameter).second) continue;
    gains.insert(c.scale);
    const std::vector<double> gain = value(c.scale).to_vector<double>();
    std::vector<double> w = value(c.parameter).to_vector<double>();
    const size_t inner = w.size() / gain.size();
    for (size_t i = 0; i < w.size(); ++i) w[i] *= gain[i / inner];
    set(c.parameter, Tensor::from(w, value(c.parameter).shape()));
  }
  for (const std::string& gain : gains) set(gain, Tensor::full(value(gain).shape(), 1, DType::f64));
}

// The mean over all rows of the stack, of each column.
void NetworkPatch::centre_together(const std::vector<const CentredParameter*>& group) {
  std::map<std::string, std::vector<double>> w;
  std::vector<double> mean;
  double rows = 0;
  for (const CentredParameter* c : group) {
    CBWC_CHECK(c->lane.axis == 0, "only rows are stacked");
    const Tensor t = value(c->parameter);
    const std::vector<double>& v = w[c->parameter] = t.to_vector<double>();
    mean.resize(v.size() / static_cast<size_t>(t.size(0)));
    for (size_t i = 0; i < v.size(); ++i) mean[i % mean.size()] += v[i];
    rows += static_cast<double>(t.size(0));
  }
  for (auto& [name, v] : w) {
    for (size_t i = 0; i < v.size(); ++i) v[i] -= mean[i % mean.size()] / rows;
    set(name, Tensor::from(v, value(name).shape()));
  }
}

void NetworkPatch::centre(const std::vector<CentredParameter>& list) {
  scale(list);
  std::map<int, std::vector<const CentredParameter*>> groups;
  for (const CentredParameter& c : list) {
    if (c.together > 0)
      groups[c.together].push_back(&c);
    else
      set(c.parameter, centred(value(c.parameter), c.lane));
  }
  for (const auto& [number, group] : groups) centre_together(group);
}

Tensor row_means(const Tensor& table) {
  const Tensor lost = plus(table, centred(table, whole_axis(table.shape(), 1)), -1);
  return lost.slice(1, 0, 1).contiguous().reshape({table.size(0)});
}

}  // namespace cbwc::testing
