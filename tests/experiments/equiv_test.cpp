#include "experiments/equiv.h"

#include <cstring>

#include "layers/compare.h"
#include "layers/gpt.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::TemporaryFolder;
using testing::tiny_config;
using testing::write_tiny_data;

namespace {

constexpr int kSteps = 100;

Config small(const std::string& data, std::vector<std::string> extra = {}) {
  extra.insert(extra.end(), {"model.dtype=float64", "model.context=8", "equiv.batch=2"});
  return tiny_config(data, extra);
}

EquivPlan plan_for(const Config& config, const TrainingData& data, int64_t steps) {
  const auto stream = data.train->stream({config.equiv.batch, 1, 0, 0});
  EquivPlan plan;
  plan.steps = steps;
  for (int64_t i = 0; i < std::max<int64_t>(steps, 1); ++i) plan.batches.push_back(stream->next());
  return plan;
}

std::unique_ptr<Gpt> model(Config config, const char* norm, int64_t vocab) {
  config.model.norm = norm;
  auto gpt = std::make_unique<Gpt>(gpt_config(config, vocab), 1);
  randomize(*gpt, 1, 0.5);
  return gpt;
}

// Centres a stored writer of the residual stream, as CBWC's effective weight.
void centre_stored(Gpt& gpt, const std::string& name) {
  Tensor& w = gpt.parameter(name)->mutate();
  const bool table = name.find("wte") == 0 || name.find("wpe") == 0;
  const int64_t rows = w.size(0), cols = w.rank() > 1 ? w.size(1) : 1;
  double* x = w.data<double>();
  const int64_t lines = table ? rows : cols, length = table ? cols : rows;
  for (int64_t i = 0; i < lines; ++i) {
    const auto at = [&](int64_t j) { return table ? i * cols + j : j * cols + i; };
    double mean = 0;
    for (int64_t j = 0; j < length; ++j) mean += x[at(j)] / static_cast<double>(length);
    for (int64_t j = 0; j < length; ++j) x[at(j)] -= mean;
  }
}

std::vector<std::string> writers(const Gpt& gpt) {
  std::vector<std::string> names;
  for (const ParameterPtr& p : gpt.parameters()) {
    const std::string& n = p->name();
    if (p->role() == Role::embedding || p->role() == Role::position ||
        n.find("attn.out.") != std::string::npos || n.find("mlp.down.") != std::string::npos)
      names.push_back(n);
  }
  return names;
}

}  // namespace

TEST_CASE("Without dropout CBWC + RMSNorm is LayerNorm, in function and in training") {
  TemporaryFolder folder;
  const Config config = small(write_tiny_data(folder), {"model.dropout=0"});
  const EquivReport report = run_equiv(config, {kSteps, {}, ""});
  REQUIRE(report.cases.size() == 2);
  for (const EquivCase& c : report.cases) {
    INFO(equiv_table(report));
    CHECK(c.expected_exact);
    CHECK(c.exact);
    CHECK(c.breaks.empty());
    CHECK(c.steps == kSteps);
    CHECK(c.output_max_abs > 0);  // two computations, not one compared with itself
  }
  CHECK(report.cases[0].grad_max_rel < 1e-10);
  CHECK(report.cases[0].steps_max_rel < 1e-8);
  CHECK_FALSE(report.failed);
}

TEST_CASE("Element dropout breaks the equivalence; the other placements do not") {
  TemporaryFolder folder;
  const Config config = small(write_tiny_data(folder), {"model.dropout=0.2"});
  const EquivReport report = run_equiv(config, {20, {"before_projection", "path", "centred"}, ""});
  REQUIRE(report.cases.size() == 10);
  INFO(equiv_table(report));
  CHECK_FALSE(report.failed);
  for (const EquivCase& c : report.cases) {
    const bool element = c.dropout > 0 && c.dropout_placement == "element";
    CHECK(c.exact == !element);
    CHECK(c.expected_exact == !element);
    CHECK(c.breaks.empty() == !element);
    if (element) CHECK(c.output_max_rel > 1e-3);
  }
}

TEST_CASE("Negative control: one writer left uncentred is seen") {
  TemporaryFolder folder;
  const Config config =
      small(write_tiny_data(folder), {"model.dropout=0", "model.tied_head=false"});
  const TrainingData data = open_data(config);
  const auto outputs = [&](const std::string& left_out) {
    auto reference = model(config, "layernorm", data.shape.vocab);
    auto candidate = model(config, "rmsnorm", data.shape.vocab);
    for (const std::string& name : writers(*candidate))
      if (name != left_out) centre_stored(*candidate, name);
    return compare_models(*reference, *candidate, config, plan_for(config, data, 0));
  };
  CHECK(outputs("").output_max_rel < 1e-10);
  for (const char* left_out :
       {"blocks.0.attn.out.weight", "blocks.1.mlp.down.weight", "blocks.1.mlp.down.bias"}) {
    INFO(left_out);
    const EquivCase c = outputs(left_out);
    CHECK(c.output_max_rel > 1e-4);
    CHECK_FALSE(c.exact);
  }
}

TEST_CASE("Negative control: centring once at construction fails the steps") {
  TemporaryFolder folder;
  const Config config =
      small(write_tiny_data(folder), {"model.dropout=0", "model.tied_head=false"});
  const TrainingData data = open_data(config);
  auto reference = model(config, "layernorm", data.shape.vocab);
  auto candidate = model(config, "rmsnorm", data.shape.vocab);
  // Both start from centred weights, so only what happens after construction can differ.
  for (const std::string& name : writers(*candidate)) {
    centre_stored(*reference, name);
    centre_stored(*candidate, name);
  }
  const EquivCase c =
      compare_models(*reference, *candidate, config, plan_for(config, data, kSteps));
  CHECK(c.output_max_rel < 1e-10);
  CHECK(c.steps_max_rel > 1e-3);
  CHECK_FALSE(c.exact);
}

TEST_CASE("The cbwc arm's tape has no LayerNorm and centres weights only") {
  TemporaryFolder folder;
  const Config config = small(write_tiny_data(folder), {"model.dropout=0.1"});
  const TrainingData data = open_data(config);
  const Batch batch = plan_for(config, data, 0).batches[0];
  const auto count = [&](const char* norm) {
    auto gpt = model(config, norm, data.shape.vocab);
    Rng rng(1, "dropout");
    Tape tape;
    TapeScope scope(&tape);
    gpt->loss(batch.ids, batch.targets, Context{true, &rng, nullptr});
    std::map<std::string, int> ops;
    for (const TapeNode& node : tape.nodes()) {
      const std::string name = node.op->name();
      ++ops[name];
      if (name == "center" && !tape.values()[static_cast<size_t>(node.inputs[0])].parameter)
        ++ops["centred activation"];
    }
    return ops;
  };
  auto cbwc = count("cbwc_rmsnorm"), ln = count("layernorm");
  CHECK(cbwc["layer_norm"] == 0);
  CHECK(cbwc["rms_norm"] == 5);
  CHECK(cbwc["centred activation"] == 0);
  CHECK(cbwc["center"] > 0);
  CHECK(ln["layer_norm"] == 5);
  CHECK(ln["center"] == 0);
}

TEST_CASE("Without its data file equiv takes seeded random tokens and says so; the dump is whole") {
  TemporaryFolder folder;
  const Config config = small(folder.file("missing.h5"), {"model.dropout=0"});
  const EquivReport report = run_equiv(config, {2, {}, folder.file("dump.h5")});
  CHECK(report.note.find("random") != std::string::npos);
  CHECK_FALSE(report.failed);
  const Checkpoint dump = read_checkpoint(folder.file("dump.h5"));
  CHECK(relative_difference(dump.tensor("layernorm/logits"), dump.tensor("cbwc_rmsnorm/logits")) <
        1e-10);
  CHECK(dump.find("inputs/ids") != nullptr);
  CHECK(dump.find("cbwc_rmsnorm/gradients/blocks.0.attn.qkv.weight") != nullptr);
}
