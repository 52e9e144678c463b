// What opens a folded folder of any family: eval, generate, and training on from it.
#include <cmath>

#include "experiments/fold.h"
#include "experiments/initial_weights.h"
#include "experiments/json_output.h"
#include "layers/compare.h"
#include "tests/experiments/fold_families.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::foldable_families;
using testing::foldable_family_config;
using testing::FoldableFamily;
using testing::run_cbwc;
using testing::TemporaryFolder;
using testing::tiny_toml;
using testing::write_bytes;
using testing::write_tiny_data;

namespace {

constexpr double kExact = 1e-10;   // the fold's own bound in float64
constexpr double kVisible = 1e-3;  // what another function differs by

using Sets = std::vector<std::string>;

struct Folded : testing::FoldedRun {
  using FoldedRun::FoldedRun;
  // The model of an arm, started from the folded folder.
  std::unique_ptr<Model> start(const Sets& sets, Sets* notes = nullptr) const {
    const Config arm = apply_sets(config, sets);
    std::unique_ptr<Model> model = build_model(arm, shape, 2);
    const Sets said = load_initial_weights(*model, arm, out);
    if (notes != nullptr) *notes = said;
    return model;
  }
  double difference(Model& model) const {
    const LoadedModel before = load_model(run);
    const ModelInput input = before.model->example(3, 17);
    return relative_difference(before.model->logits(input, {}).value(),
                               model.logits(input, {}).value());
  }
};

bool warns(const Sets& notes) {
  for (const std::string& note : notes)
    if (note.rfind("warning: ", 0) == 0) return true;
  return false;
}

}  // namespace

TEST_CASE("training goes on from a folded model of every family in the layernorm arm, exactly") {
  for (const FoldableFamily& family : foldable_families())
    for (const HeadTie tied : {HeadTie::rank_one, HeadTie::untie, HeadTie::runtime}) {
      if (!family.tied && tied != HeadTie::rank_one) continue;
      INFO(family.name << " " << head_tie_name(tied));
      const Folded folded(foldable_family_config(family), tied);
      Sets notes;
      CHECK(folded.difference(*folded.start({}, &notes)) <= kExact);
      CHECK_FALSE(warns(notes));
    }
}

TEST_CASE("the cbwc_rmsnorm arm is the same function where every norm is exact, else it warns") {
  for (const FoldableFamily& family : foldable_families()) {
    INFO(family.name);
    const Folded folded(foldable_family_config(family));
    Sets notes;
    const double difference = folded.difference(*folded.start({"model.norm=cbwc_rmsnorm"}, &notes));
    const bool exact = family.plain == family.norms;
    CHECK(exact == (difference <= kExact));
    CHECK(exact == (difference <= kVisible));
    CHECK(exact != warns(notes));
  }
}

TEST_CASE("the rmsnorm arm takes what it has a place for and names what it has not") {
  for (const FoldableFamily& family : foldable_families()) {
    INFO(family.name);
    const Folded folded(foldable_family_config(family));
    Sets sets = {"model.norm=rmsnorm"};
    if (family.name == "gpt") sets.emplace_back("model.folded_tie=rank_one");
    if (folded.config.model.qk_norm == "layernorm") sets.emplace_back("model.qk_norm=rmsnorm");
    const char* refusal = nullptr;
    if (family.carried > 0 || family.name.rfind("bert", 0) == 0)
      refusal = "is still a LayerNorm";
    else if (family.auxiliary > 0)
      refusal = "the output of 'embedding_norm' is centred at run time";
    else if (family.tied && family.name != "gpt")
      refusal = "the tie of 'head' was settled";
    if (refusal != nullptr)
      CHECK_THROWS_WITH(folded.start(sets), ContainsSubstring(refusal));
    else
      CHECK(folded.difference(*folded.start(sets)) <= kExact);
  }
}

TEST_CASE("a folded masked language model starts a classifier") {
  for (const FoldableFamily& family : foldable_families()) {
    if (family.name != "bert mlm") continue;
    const Folded folded(foldable_family_config(family));
    Sets notes;
    const auto model = folded.start({"model.task=classification"}, &notes);
    CHECK(notes.size() == 2);  // the head is new
    const Tensor before = load_model(folded.run).model->parameter("tokens.weight")->value();
    CHECK(relative_difference(before, model->parameter("tokens.weight")->value()) <= kExact);
  }
}

TEST_CASE("eval, generate and training read a folder with run-time centrings") {
  TemporaryFolder folder;
  const std::string data = write_tiny_data(folder), config = folder.file("tiny.toml");
  write_bytes(config, tiny_toml(data));
  const std::string run = folder.file("run"), out = folder.file("folded"),
                    bloom = " --set model.family=bloom --set model.norm=layernorm ";
  const auto cbwc = [&](const std::string& arguments) { return run_cbwc(folder, arguments); };
  REQUIRE(cbwc("train " + config + " --quiet" + bloom + "--out " + run).exit_code == 0);
  const auto folded = cbwc("fold " + run + " --auxiliary-centring --out " + out);
  INFO(folded.out << folded.err);
  REQUIRE(folded.exit_code == 0);
  CHECK(folded.out.find("6 of 6 LayerNorms") != std::string::npos);
  CHECK(folded.out.find("what embedding_norm returns is centred at run time") != std::string::npos);
  const auto loss = [&](const std::string& of) {
    const auto done = cbwc("eval " + of + " --json " + folder.file("e.json"));
    INFO(done.err);
    REQUIRE(done.exit_code == 0);
    return read_json(folder.file("e.json")).at("results").at("loss").get<double>();
  };
  const double before = loss(run);
  CHECK(std::abs(before - loss(out)) <= 1e-5);
  CHECK(std::abs(before - loss(out + "/checkpoints")) <= 1e-5);
  const std::string words = " --prompt 'the norm ' --tokens 40";
  const std::string text = cbwc("generate " + run + words).out;
  CHECK(text.size() > 20);
  CHECK(cbwc("generate " + out + words).out == text);
  CHECK(cbwc("detect " + out).out.find("nothing to fold") != std::string::npos);
  CHECK(cbwc("eval " + config).err.find("is a config") != std::string::npos);
  const auto on = cbwc("train " + config + " --quiet" + bloom + "--init " + out + " --out " +
                       folder.file("on"));
  INFO(on.err);
  CHECK(on.exit_code == 0);
  const auto refused =
      cbwc("train " + config + " --quiet" + bloom + "--set model.norm=rmsnorm --init " + out +
           " --out " + folder.file("r"));
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("'embedding_norm'") != std::string::npos);
}
