// A small GPT against PyTorch: first-step gradients and the losses of ten AdamW steps
// (tests/fixtures/make_gpt.py).
#include <cmath>

#include "optim/adamw.h"
#include "tests/support/catch.h"
#include "tests/support/fixture.h"
#include "tests/support/small_gpt.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kGradient = 1e-10;  // float64 on both sides, sums in another order
constexpr double kLoss = 1e-9;       // after ten steps of growing rounding differences

// values() of make_gpt.py; parameters in the order of their names.
void set_formula(const Gpt& model) {
  int k = 0;
  for (const auto& [name, unused] : model.state()) {
    const ParameterPtr p = model.parameter(name);
    Tensor& value = p->mutate();
    const double shift = p->role() == Role::norm_gain ? 1.0 : 0.0;
    for (int64_t i = 0; i < value.numel(); ++i) {
      value.data<double>()[i] =
          0.3 * std::sin(1.3 * static_cast<double>(i) + 0.7 * k + 0.1) + shift;
    }
    ++k;
  }
}

std::vector<double> train(Gpt& model) {
  FlatParameters flat(model.parameters());
  AdamW optimiser(flat, {0.9, 0.95, 1e-8, 0.1});
  std::vector<double> losses;
  for (int step = 0; step < 10; ++step) {
    losses.push_back(run_step(model, small_batch(step)).loss);
    optimiser.step(1e-2);
  }
  return losses;
}

}  // namespace

TEST_CASE("a small GPT follows PyTorch") {
  for (const Norm norm : {Norm::layernorm, Norm::rmsnorm, Norm::cbwc_rmsnorm}) {
    INFO(norm_name(norm));
    Gpt model(small_gpt(norm), 1);
    set_formula(model);
    // CBWC is compared with PyTorch's LayerNorm model: it is the same function.
    const std::string group = norm == Norm::rmsnorm ? "rmsnorm" : "layernorm";
    const NamedTensors got = run_step(model, small_batch(0)).gradients;
    NamedTensors expected;
    for (const auto& [name, unused] : got) {
      expected.emplace(name, read_fixture("gpt_small.h5", group + "/grad/" + name));
    }
    const Difference d = relative_difference(expected, got);
    INFO("worst gradient " << d.name);
    CHECK(d.largest <= kGradient);
    const std::vector<double> losses =
        read_fixture("gpt_small.h5", group + "/losses").to_vector<double>();
    const std::vector<double> ours = train(model);
    REQUIRE(ours.size() == losses.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      CHECK(std::abs(ours[i] - losses[i]) <= kLoss * losses[i]);
    }
  }
}
