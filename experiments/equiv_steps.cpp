#include "experiments/equiv_steps.h"

#include <algorithm>
#include <cmath>

#include "experiments/json_output.h"

namespace cbwc {

bool within_rounding(const std::vector<EquivPoint>& curve, double strict) {
  double control = 0;
  return std::all_of(curve.begin(), curve.end(), [&](const EquivPoint& p) {
    control = std::max(control, p.control);
    return p.difference <= std::max(strict, kStepsFactor * control);
  });
}

bool within_rounding(const std::map<std::string, double>& differences,
                     const std::map<std::string, double>& control, double strict) {
  return std::all_of(differences.begin(), differences.end(), [&](const auto& d) {
    return d.second <= std::max(strict, kGradientFactor * control.at(d.first));
  });
}

void change_last_bits(const Module& model) {
  for (const ParameterPtr& p : model.parameters()) {
    if (!p->trainable()) continue;
    dispatch_float(p->value().dtype(), "equiv", [&](auto zero) {
      using T = decltype(zero);
      T* x = p->mutate().template data<T>();
      for (int64_t i = 0; i < p->value().numel(); ++i)
        if (x[i] != T{0}) x[i] = std::nextafter(x[i], i % 2 == 0 ? T{0} : 2 * x[i]);
    });
  }
}

std::string control_words(const EquivCase& c) {
  if (c.curve.empty()) return "";
  std::string out = fmt::format(
      "  control, LayerNorm with the last bit of every weight changed:\n"
      "    gradients of {}: {:.1e}: {}\n",
      c.grad_worst, c.grad_control_rel,
      c.gradients_within_rounding ? "all are within what rounding alone does"
                                  : "some differ by more than rounding alone explains");
  if (c.steps == 0) return out;
  int64_t next = 1;
  for (const EquivPoint& p : c.curve) {
    if (p.step < next && p.step != c.curve.back().step) continue;
    out += fmt::format("    step {:>5}: CBWC + RMSNorm {:.1e}, control {:.1e}\n", p.step,
                       p.difference, p.control);
    while (next <= p.step) next *= 2;
  }
  out += fmt::format("    the steps amplify rounding by {:.0e}", c.amplification);
  if (c.dtype != dtype_name(DType::f64)) return out + "\n";  // no bound on the steps
  return out + fmt::format(": {} steps {}\n", c.steps,
                           c.steps_within_rounding ? "are within what rounding alone does"
                                                   : "differ by more than rounding alone explains");
}

nlohmann::json curve_json(const std::vector<EquivPoint>& curve) {
  nlohmann::json out = nlohmann::json::array();
  for (const EquivPoint& p : curve)
    out.push_back({p.step, json_number(p.difference), json_number(p.control)});
  return out;
}

}  // namespace cbwc
