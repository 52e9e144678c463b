// cbwc fold on every family: the counts of method.md 6, and the folder, read again, is the same
// function, also where the fold is partial, centres at run time or carries means.
#include <filesystem>
#include <functional>

#include "experiments/fold.h"
#include "experiments/training_data.h"
#include "layers/compare.h"
#include "layers/layer_norm.h"
#include "tests/experiments/fold_families.h"
#include "tests/experiments/tiny_families.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::foldable_families;
using testing::foldable_family_config;
using testing::FoldableFamily;
using testing::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

constexpr double kExact = 1e-10;   // the fold's own bound in float64
constexpr double kVisible = 1e-3;  // what a mistake changes

using Sets = std::vector<std::string>;

// A folder like a run's, of a model whose every gain and bias is drawn.
struct Source {
  TemporaryFolder folder;
  std::string run = folder.file("run");
  Config config;
  DataShape shape{40, 30, 3, 3};

  explicit Source(const FoldableFamily& family, const Sets& sets = {})
      : config(foldable_family_config(family, sets)) {
    config.run.out = run;
    config.model.vocab = shape.vocab;
    testing::write_randomised_run(config, shape);
  }
  FoldReport fold(const std::string& from, const std::string& to, FoldOptions options = {},
                  bool carry_mean = false, bool affine = false) const {
    FoldRequest request;
    request.model = folder.file(from);
    request.out = folder.file(to);
    request.options = options;
    request.carry_mean = carry_mean;
    request.affine = affine;
    return run_fold(request);
  }
  LoadedModel load(const std::string& name) const { return load_model(folder.file(name)); }
  // On an input with padding, of another seed than the fold's own check.
  double difference(const std::string& a, const std::string& b) const {
    const LoadedModel x = load(a), y = load(b);
    const ModelInput input = x.model->example(3, 17);
    return relative_difference(x.model->logits(input, {}).value(),
                               y.model->logits(input, {}).value());
  }
};

int64_t layer_norms(const Module& module) {
  const auto* norm = dynamic_cast<const LayerNorm*>(&module);
  int64_t count = norm != nullptr && !norm->is_rms_norm() ? 1 : 0;
  for (const Module* child : module.children()) count += layer_norms(*child);
  return count;
}

// The norms switched and no writer centred.
double uncentred_difference(const Source& source, const FoldPlan& plan) {
  const LoadedModel before = source.load("run"), wrong = source.load("run");
  FoldPlan norms_only;
  norms_only.norms = plan.norms;
  apply_fold(*wrong.model, norms_only);
  const ModelInput input = before.model->example(3, 17);
  return relative_difference(before.model->logits(input, {}).value(),
                             wrong.model->logits(input, {}).value());
}

void check_fold(const Source& source, const std::string& to, const FoldReport& report, int folded) {
  REQUIRE_FALSE(report.failed);
  CHECK(static_cast<int>(report.plan.norms.size()) == folded);
  CHECK(layer_norms(*source.load(to).model) == report.norms - folded);
  CHECK(source.difference("run", to) <= kExact);
  CHECK(uncentred_difference(source, report.plan) > kVisible);
}

FoldableFamily family_named(const std::string& name) {
  for (const FoldableFamily& family : foldable_families())
    if (family.name == name) return family;
  throw Error("no family " + name);
}

}  // namespace

TEST_CASE("every family folds as method.md 6 counts, and its folder is the same function") {
  for (const FoldableFamily& family : foldable_families()) {
    INFO(family.name);
    const Source source(family);
    for (const HeadTie tied : {HeadTie::rank_one, HeadTie::untie, HeadTie::runtime}) {
      if (!family.tied && tied != HeadTie::rank_one) continue;
      INFO(head_tie_name(tied));
      const std::string out = head_tie_name(tied);
      const FoldReport report = source.fold("run", out, {tied, false});
      CHECK(report.norms == family.norms);
      CHECK(report.plan.ties.size() == (family.tied ? 1 : 0));
      check_fold(source, out, report, family.plain);
      // Folding again finds nothing more.
      CHECK(source.fold(out, "again", {tied, false}).plan.empty());
      CHECK_FALSE(fs::exists(source.folder.file("again")));
    }
  }
}

TEST_CASE("gains and biases fold in every family, or stay with a reason") {
  for (const FoldableFamily& family : foldable_families()) {
    INFO(family.name);
    const Source source(family);
    const FoldReport report = source.fold("run", "affine", {HeadTie::rank_one, true}, true, true);
    check_fold(source, "affine", report, family.plain + family.auxiliary + family.carried);
    REQUIRE(report.plan.affine.size() == report.plan.norms.size());
    const NamedTensors state = source.load("affine").model->state();
    for (const AffineFold& a : report.plan.affine) {
      INFO(a.norm << ": " << a.skipped);
      CHECK(a.skipped.empty() != a.readers.empty());
      if (!a.skipped.empty()) continue;
      for (const double g : state.at(a.gamma).to_vector<double>()) CHECK(g == 1);
      for (const double b : state.at(a.beta).to_vector<double>()) CHECK(b == 0);
    }
  }
}

TEST_CASE("auxiliary centrings and carried means are written, read and added to later") {
  for (const char* name : {"bloom", "swin"}) {
    INFO(name);
    const FoldableFamily family = family_named(name);
    const Source source(family);
    const FoldOptions more{HeadTie::rank_one, true};
    const FoldReport all = source.fold("run", "all", more, true);
    check_fold(source, "all", all, family.plain + family.auxiliary + family.carried);
    CHECK(all.plan.auxiliary.empty() == (family.auxiliary == 0));
    CHECK(all.plan.carried.serves == family.carried);
    CHECK(source.load("all").config.model.norm == (family.carried > 0 ? "layernorm" : "rmsnorm"));
    CHECK(fold_json(all).at("carried") == family.carried);
    CHECK(fold_json(all).at("auxiliary") == all.plan.auxiliary.size());
    CHECK(source.fold("all", "again", more, true).plan.empty());
    // What was folded in part folds further; its folder has both folds.
    source.fold("run", "part");
    const FoldReport rest = source.fold("part", "rest", more, true);
    REQUIRE_FALSE(rest.failed);
    CHECK(static_cast<int>(rest.plan.norms.size()) == family.auxiliary + family.carried);
    CHECK(source.load("rest").folds.size() == 2);
    CHECK(layer_norms(*source.load("rest").model) == layer_norms(*source.load("all").model));
    CHECK(source.difference("run", "rest") <= kExact);
    // Control: the same values without what the plan adds to the model.
    const LoadedModel folded = source.load("all");
    std::vector<FoldPlan> folds = folded.folds;
    folds[0].auxiliary.clear();
    folds[0].carried = {};
    const auto wrong = empty_model(folded.config, folded.shape, DType::f64, folds);
    wrong->load_state(folded.model->state());
    const ModelInput input = wrong->example(3, 17);
    if (family.carried > 0)
      CHECK_THROWS_AS(wrong->logits(input, {}), Error);  // a stream one channel too wide
    else
      CHECK(relative_difference(folded.model->logits(input, {}).value(),
                                wrong->logits(input, {}).value()) > kVisible);
  }
}

TEST_CASE("a partial fold of float32 is verified in both types") {
  const Source source(family_named("swin"), {"model.dtype=float32"});
  const FoldReport report = source.fold("run", "folded", {}, true);
  CHECK_FALSE(report.failed);
  CHECK(report.plan.norms.size() == 26);
  CHECK(report.verifications.size() == 2);
  CHECK(source.difference("run", "folded") <= 1e-4);
}

TEST_CASE("a fold's record says all of the plan and reads back") {
  const Source source(family_named("swin"));
  const FoldReport report = source.fold("run", "folded", {}, true, true);
  const nlohmann::json json = plan_json(report.plan);
  CHECK(plan_json(plan_from_json(json)) == json);
  CHECK(plan_json(source.load("folded").folds.at(0)) == json);
  // The form of a record without carried means and with readers by module.
  nlohmann::json old = plan_json(FoldPlan{{"norm"}, {}, {}, {}, HeadTie::untie, {}, {}});
  old.erase("carried");
  old["affine"] = {{{"norm", "norm"}, {"readers", {"head"}}, {"skipped", ""}}};
  CHECK(plan_from_json(old).affine.at(0).readers.at(0).module == "head");
  CHECK(plan_from_json(old).tied == HeadTie::untie);
  // A damaged record names its checkpoint.
  const std::string path = source.load("folded").checkpoint_path;
  Checkpoint checkpoint = read_checkpoint(path);
  nlohmann::json attributes = nlohmann::json::parse(checkpoint.attributes_json);
  const auto refused = [&](const std::function<void(nlohmann::json&)>& f, const char* message) {
    nlohmann::json bad = attributes;
    f(bad["folded"]["plan"]);
    checkpoint.attributes_json = bad.dump();
    write_checkpoint(path, checkpoint);
    CHECK_THROWS_WITH(source.load("folded"), ContainsSubstring(path) && ContainsSubstring(message));
  };
  refused([](nlohmann::json& p) { p.erase("norms"); }, "record");
  refused([](nlohmann::json& p) { p["norms"][0] = "nowhere"; }, "'nowhere'");
  refused([](nlohmann::json& p) { p["norms"][0] = "head"; }, "not a norm");
  refused([](nlohmann::json& p) { p["carried"]["readers"][0] = "norm"; }, "before it");
  refused([](nlohmann::json& p) { p["carried"]["projected"][0] = "head"; }, "cannot be carried");
  refused([](nlohmann::json& p) { p["auxiliary"] = {"head"}; }, "cannot be centred");
}

TEST_CASE("other arms have nothing to fold") {
  for (const FoldableFamily& family : foldable_families())
    for (const char* norm : {"model.norm=rmsnorm", "model.norm=cbwc_rmsnorm"}) {
      INFO(family.name << " " << norm);
      const Source source(family, {norm, "model.qk_norm=none"});
      const FoldReport report = source.fold("run", "folded");
      CHECK(report.plan.empty());
      CHECK(fold_text(report).find("it has no LayerNorm") != std::string::npos);
      CHECK_FALSE(fs::exists(source.folder.file("folded")));
    }
}

TEST_CASE("the fold is verified on the run's own images, texts and translations") {
  TemporaryFolder folder;
  for (const testing::TinyFamily& family : testing::tiny_families(folder)) {
    INFO(family.name);
    Config config = testing::family_config(family, {"model.norm=layernorm", "model.dtype=float64"});
    config.run.out = folder.file("run_" + family.name);
    testing::write_randomised_run(config, open_data(config).shape);
    FoldRequest request;
    request.model = config.run.out;
    request.out = folder.file("folded_" + family.name);
    const FoldReport report = run_fold(request);
    INFO(fold_text(report));
    CHECK_FALSE(report.failed);
    REQUIRE(report.verifications.size() == 2);
    CHECK(report.verifications[1].input == config.data.file);
    CHECK((report.verifications[1].positions == 2) == (task_of(config) == Task::classification));
  }
}
