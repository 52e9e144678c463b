// What rounding alone does, and that it excuses no mistake.
#include "experiments/equiv_steps.h"

#include <cmath>

#include "layers/compare.h"
#include "layers/gpt.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::TemporaryFolder;
using testing::tiny_config;

namespace {

constexpr int kSteps = 100;
constexpr double kStrict = 1e-8;

// Training past stability, on random tokens.
Config unstable(std::vector<std::string> extra = {}) {
  extra.insert(extra.begin(), {"model.dtype=float64", "model.context=8", "equiv.batch=2",
                               "model.dropout=0", "optim.lr=0.3"});
  return tiny_config("", extra);
}

std::unique_ptr<Gpt> model(Config config, const std::string& norm, int64_t vocab) {
  config.model.norm = norm;
  auto gpt = std::make_unique<Gpt>(gpt_config(config, vocab), 1);
  randomize(*gpt, 1, 0.5);
  return gpt;
}

}  // namespace

TEST_CASE("Where training amplifies rounding, the control tells it from a mistake") {
  const EquivReport report = run_equiv(unstable(), {kSteps, {}, ""});
  INFO(equiv_table(report));
  const EquivCase& c = report.cases.at(0);
  CHECK(c.steps_max_rel > kStrict);  // so the strict bound alone would refuse it
  CHECK(c.exact);
  CHECK(c.steps_within_rounding);
  CHECK(c.gradients_within_rounding);
  REQUIRE(c.curve.size() == kSteps + 1);
  CHECK(c.curve[0].control > 0);
  CHECK(c.curve[0].control < 1e-15);
  CHECK(c.amplification > 1e6);
  CHECK(c.curve.back().difference == c.steps_max_rel);
  CHECK_FALSE(report.failed);
  CHECK(equiv_table(report).find("within what rounding alone does") != std::string::npos);
  CHECK(equiv_json(report).at("cases")[0].at("curve").size() == kSteps + 1);
}

TEST_CASE("Where training is stable there is no control") {
  const EquivReport report = run_equiv(unstable({"optim.lr=1e-3"}), {20, {}, ""});
  CHECK(report.cases.at(0).exact);
  CHECK(report.cases.at(0).curve.empty());
}

TEST_CASE("Negative control: no learning rate excuses an inexact model") {
  const Config config = unstable({"model.placement=post"});
  const EquivReport report = run_equiv(config, {kSteps, {}, ""});
  CHECK_FALSE(report.cases.at(0).exact);
  // Nor does it with the control beside it: post-norm, and RMSNorm without any centring.
  const TrainingData data = cbwc::random_data(config, 4000, 1);
  for (const char* placement : {"post", "pre"}) {
    INFO(placement);
    const Config c = unstable({std::string("model.placement=") + placement});
    const bool post = c.model.placement == "post";
    const auto reference = model(c, "layernorm", data.shape.vocab),
               candidate = model(c, post ? "cbwc_rmsnorm" : "rmsnorm", data.shape.vocab),
               control = model(c, "layernorm", data.shape.vocab);
    EquivPlan plan;
    plan.steps = kSteps;
    const auto stream = data.train->stream({2, 1, 0, 0});
    for (int i = 0; i < kSteps; ++i) plan.batches.push_back(stream->next());
    const EquivCase done = compare_models(*reference, *candidate, c, plan, control.get());
    CHECK(done.amplification > 1e4);
    CHECK_FALSE(done.gradients_within_rounding);
    CHECK_FALSE(done.steps_within_rounding);
    CHECK_FALSE(done.exact);
  }
}

TEST_CASE("A gradient that is zero in exact arithmetic is judged by the control") {
  // In float32 the bias of the norm on keys gets rounding noise alone.
  const EquivReport report =
      run_equiv(unstable({"model.qk_norm=rmsnorm", "optim.lr=1e-3"}), {2, {}, ""});
  INFO(equiv_table(report));
  CHECK(report.cases.at(1).dtype == "float32");
  CHECK(report.cases[1].exact);
  CHECK_FALSE(report.failed);
}

TEST_CASE("Within rounding: every step counts, up to the factor") {
  const auto curve = [](double difference, double control) {
    return std::vector<EquivPoint>{{0, 0, 1e-16}, {1, difference, control}, {2, 0.5, 0.5}};
  };
  CHECK(within_rounding(curve(9e-9, 1e-14), kStrict));
  CHECK_FALSE(within_rounding(curve(2e-8, 1e-12), kStrict));
  CHECK(within_rounding(curve(2e-8, 1e-9), kStrict));
  CHECK_FALSE(within_rounding(curve(1.01e-6 * kStepsFactor, 1e-6), kStrict));
  CHECK_FALSE(within_rounding(curve(INFINITY, 1e-6), kStrict));
  CHECK(within_rounding({{0, 0, 1e-16}, {1, 1e-9, 1e-3}, {2, 0.5, 1e-9}}, kStrict));
  CHECK_FALSE(within_rounding({{0, 0, 1e-16}, {1, 1e-3, 1e-9}, {2, 0.5, 0.5}}, kStrict));
  CHECK(within_rounding({{"a", 1e-5}, {"b", 9e-4}}, {{"a", 0}, {"b", 1e-4}}, 1e-4));
  CHECK_FALSE(within_rounding({{"a", 2e-4}, {"b", 9e-4}}, {{"a", 0}, {"b", 1e-4}}, 1e-4));
}

TEST_CASE("The control differs in the last bit of every number") {
  const Config config = unstable();
  const auto a = model(config, "layernorm", 31), b = model(config, "layernorm", 31);
  change_last_bits(*b);
  int64_t changed = 0, smaller = 0, numbers = 0;
  for (const auto& [name, tensor] : a->state()) {
    const std::vector<double> x = tensor.to_vector<double>(),
                              y = b->state().at(name).to_vector<double>();
    for (size_t i = 0; i < x.size(); ++i) {
      CHECK((y[i] == std::nextafter(x[i], 10.0) || y[i] == std::nextafter(x[i], -10.0)));
      smaller += std::fabs(y[i]) < std::fabs(x[i]);
      changed += x[i] != y[i];
      ++numbers;
    }
  }
  CHECK(changed == numbers);
  CHECK(std::abs(static_cast<double>(smaller) / static_cast<double>(numbers) - 0.5) < 0.05);
}
