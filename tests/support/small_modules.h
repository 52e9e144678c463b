// For tests of single modules: a root for them, numbers in, numbers out.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "core/rng.h"
#include "layers/module.h"
#include "tests/support/catch.h"

namespace cbwc::testing {

class Root : public Module {
 public:
  Root() : Module(nullptr, "") {}
  std::string describe() const override { return "test"; }
  using Module::add_constant_parameter;
};

inline void set(const ParameterPtr& p, const std::vector<double>& values) {
  p->mutate().copy_from(Tensor::from(values, p->value().shape()));
}

inline void check_values(const Tensor& t, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> got = t.to(DType::f64).to_vector<double>();
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) <= tolerance);
}

// Every number of the model from a normal distribution with a mean that is not zero.
inline void draw_all(const Module& model, uint64_t seed) {
  for (const ParameterPtr& p : model.parameters()) {
    Rng rng(seed, p->name());
    fill_normal(p->mutate(), 0.4, 0.7, rng);
  }
}

}  // namespace cbwc::testing
