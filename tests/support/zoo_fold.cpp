#include "tests/support/zoo_fold.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "layers/compare.h"

namespace cbwc::testing {

Detection detect_in(ZooModel& model, bool training, bool carry_mean) {
  Rng rng(7, "dropout");
  Tape tape;
  const TapeScope scope(&tape);
  const std::vector<Variable> out = model.run({training, &rng, nullptr}, 1);
  return detect(graph_of(tape, out, training), carry_mean);
}

std::vector<std::string> parameters_of(const Module& model,
                                       const std::vector<std::string>& layers) {
  std::vector<std::string> out;
  for (const std::string& layer : layers) {
    const size_t before = out.size();
    for (const ParameterPtr& p : model.parameters()) {
      if (p->name() == layer || p->name().rfind(layer + ".", 0) == 0) out.push_back(p->name());
    }
    CBWC_CHECK(out.size() > before, "zoo: no parameter belongs to '", layer, "'");
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<Tensor> outputs_of(ZooModel& model, bool training, uint64_t input_seed) {
  Rng rng(7, "dropout");
  std::vector<Tensor> out;
  for (const Variable& v : model.run({training, &rng, nullptr}, input_seed)) {
    out.push_back(v.value());
  }
  return out;
}

double output_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  CBWC_CHECK(a.size() == b.size() && !a.empty(), "zoo: other numbers of outputs");
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, relative_difference(a[i], b[i]));
  return worst;
}

FoldPlan forced_plan(const Module& model, const std::string& norm,
                     const std::vector<std::string>& parameters) {
  FoldPlan plan;
  plan.norms = {norm};
  for (const std::string& name : parameters) {
    const ParameterPtr p = model.parameter(name);
    const bool rows = p->role() == Role::embedding || p->role() == Role::position;
    plan.centre.push_back({name, "", whole_axis(p->value().shape(), rows ? -1 : 0)});
  }
  return plan;
}

double largest_mean(ZooModel& model, bool training, const std::vector<std::string>& norms) {
  Rng rng(7, "dropout");
  LayerStatistics statistics;
  model.run({training, &rng, &statistics}, 1);
  double worst = 0;
  for (const NormStatistics& s : statistics.norms) {
    if (std::find(norms.begin(), norms.end(), s.name) != norms.end()) {
      worst = std::max(worst, s.mean_ratio);
    }
  }
  return worst;
}

NamedTensors copied(const Module& model) {
  NamedTensors out;
  for (const auto& [name, t] : model.state()) out.emplace(name, t.clone());
  return out;
}

bool same_bits(const NamedTensors& a, const NamedTensors& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, t] : a) {
    const auto found = b.find(name);
    if (found == b.end() || found->second.shape() != t.shape()) return false;
    const Tensor u = t.contiguous(), v = found->second.contiguous();
    if (std::memcmp(u.raw(), v.raw(), u.bytes()) != 0) return false;
  }
  return true;
}

}  // namespace cbwc::testing
