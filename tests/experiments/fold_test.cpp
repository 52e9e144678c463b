// cbwc fold on GPTs (fold_families_test.cpp: on the others): the written folder is the same
// function, bad input and failed checks write nothing, and training goes on from it as from the
// model before.
#include "experiments/fold.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "experiments/initial_weights.h"
#include "experiments/json_output.h"
#include "experiments/run_directory.h"
#include "experiments/trainer.h"
#include "layers/compare.h"
#include "layers/gpt.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::read_bytes;
using testing::run_cbwc;
using testing::TemporaryFolder;
using testing::tiny_config;
using testing::tiny_toml;
using testing::write_bytes;
using testing::write_tiny_data;
namespace fs = std::filesystem;

namespace {

constexpr double kExact = 1e-10;   // the fold's own bound in float64
constexpr double kCurve = 1e-8;    // losses of 20 AdamW steps: rounding grows with each
constexpr double kVisible = 1e-3;  // what a mistake changes
constexpr int kSteps = 20;

using Sets = std::vector<std::string>;

// A folder like a run's, of a LayerNorm GPT whose every gain and bias is drawn and whose
// checkpoint holds moments.
struct Source {
  TemporaryFolder folder;
  std::string data = write_tiny_data(folder), run = folder.file("run");
  Config config;

  explicit Source(const Sets& sets = {}, const std::function<void(Module&)>& change = {}) {
    Sets all = {"model.norm=layernorm", "model.dtype=float64", "model.dropout=0"};
    all.insert(all.end(), sets.begin(), sets.end());
    config = tiny_config(data, all);
    config.run.out = run;
    Trainer trainer(config, 1, open_data(config));
    trainer.step();
    randomize_norms(trainer.model(), 3);
    if (change) change(trainer.model());
    RunDirectory::create(run, config).save_checkpoint(1, trainer.save(nlohmann::json::object()), 1);
  }
  std::string file(const std::string& name) const { return folder.file(name); }
  FoldReport fold(const std::string& out, FoldOptions options = {}, bool affine = false) const {
    FoldRequest request;
    request.model = run;
    request.out = file(out);
    request.options = options;
    request.affine = affine;
    return run_fold(request);
  }
  std::string checkpoint() const { return run + "/checkpoints/step_0000000001.h5"; }
};

Tensor some_ids() {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 24; ++i) ids.push_back((i * 37 + 11) % 200);
  return Tensor::from(ids, {2, 12});
}

Tensor logits_of(const std::string& model) {
  return load_model(model).model->logits({some_ids()}, Context{}).value();
}

// Losses of training on from `init`, and the model's logits at the end.
std::vector<double> curve(const Config& config, const std::string& init, Tensor* logits) {
  Trainer trainer(config, 1, open_data(config));
  load_initial_weights(trainer.model(), config, init);
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) losses.push_back(trainer.step().loss);
  *logits = trainer.model().logits({some_ids()}, Context{}).value();
  return losses;
}

double largest_gap(const std::vector<double>& a, const std::vector<double>& b) {
  double gap = 0;
  for (size_t i = 0; i < a.size(); ++i) gap = std::max(gap, std::abs(a[i] - b[i]));
  return gap;
}

}  // namespace

TEST_CASE("every LayerNorm of a GPT folds and the written model is the same function") {
  for (const Sets& sets : {Sets{}, Sets{"model.tied_head=false"}, Sets{"model.qk_norm=layernorm"},
                           Sets{"model.norm_bias=false"}, Sets{"model.dropout_placement=centred"},
                           Sets{"model.dtype=float32", "model.qk_norm=layernorm"}}) {
    const Source source(sets);
    for (const HeadTie tied : {HeadTie::rank_one, HeadTie::untie, HeadTie::runtime}) {
      INFO(Catch::StringMaker<Sets>::convert(sets) << " " << head_tie_name(tied));
      const std::string out = std::string("folded_") + head_tie_name(tied);
      const std::string before = read_bytes(source.checkpoint());
      const FoldReport report = source.fold(out, {tied, false});
      REQUIRE_FALSE(report.failed);
      CHECK(report.plan.norms.size() == static_cast<size_t>(report.norms));
      CHECK(report.norms >= 5);
      CHECK(report.verifications.size() == (report.dtype == "float32" ? 4 : 2));
      CHECK(read_bytes(source.checkpoint()) == before);
      const LoadedModel folded = load_model(source.file(out));
      CHECK(folded.config.model.norm == "rmsnorm");
      CHECK(folded.config.model.qk_norm != "layernorm");
      CHECK(folded.moments.empty());
      const double error = relative_difference(logits_of(source.run), logits_of(source.file(out)));
      CHECK(error <= (report.dtype == "float32" ? 1e-4 : kExact));
      // Folding again finds nothing and writes nothing.
      FoldRequest again;
      again.model = source.file(out);
      again.out = source.file("again");
      CHECK(run_fold(again).plan.empty());
      CHECK_FALSE(fs::exists(again.out));
    }
  }
}

TEST_CASE("what the folder records: config keys, provenance, bytes") {
  const Source source;
  const FoldReport rank_one = source.fold("a"), untie = source.fold("b", {HeadTie::untie, false}),
                   runtime = source.fold("c", {HeadTie::runtime, false});
  const int64_t vocab = load_model(source.run).config.model.vocab;
  CHECK(rank_one.extra_bytes == vocab * 8);
  CHECK(untie.extra_bytes == vocab * 16 * 8);
  CHECK(runtime.extra_bytes == 0);
  CHECK(rank_one.dropped_moments > 0);
  CHECK(load_model(source.file("a")).config.model.folded_tie == "rank_one");
  CHECK_FALSE(load_model(source.file("b")).config.model.tied_head);
  CHECK(load_model(source.file("c")).config.model.folded_tie == "runtime");
  const nlohmann::json folded = load_model(source.file("a")).attributes.at("folded");
  CHECK(folded.at("checkpoint") == source.checkpoint());
  CHECK(folded.at("before").at("norm") == "layernorm");
  CHECK(folded.at("plan").at("norms").size() == 5);
  CHECK(folded.at("plan").at("ties").size() == 1);
  CHECK(folded.at("dropped_moments") == rank_one.dropped_moments);
  CHECK(folded.at("verification").size() == 2);
  const nlohmann::json json = fold_json(rank_one);
  CHECK(json.at("norms") == 5);
  CHECK(json.at("folded") == 5);
  CHECK(json.at("auxiliary") == 0);
  CHECK(json.at("tied") == "rank_one");
  CHECK(json.at("dtype") == "float64");
  CHECK(json.at("max_rel_difference").get<double>() <= kExact);
  CHECK(json.at("argmax_agreement") == 1.0);
}

TEST_CASE("P24, P33: gains and biases fold into their readers, a tied head keeps its norm's") {
  const Source source;
  const FoldReport report = source.fold("affine", {}, true);
  REQUIRE_FALSE(report.failed);
  REQUIRE(report.plan.affine.size() == 5);
  for (const AffineFold& a : report.plan.affine) {
    INFO(a.norm << ": " << a.skipped);
    CHECK((a.norm == "norm") == !a.skipped.empty());
    if (a.norm == "norm") CHECK(a.skipped.find("wte.weight") != std::string::npos);
  }
  const NamedTensors state = load_model(source.file("affine")).model->state();
  for (const double g : state.at("blocks.0.norm1.gamma").to_vector<double>()) CHECK(g == 1);
  for (const double b : state.at("blocks.1.norm2.beta").to_vector<double>()) CHECK(b == 0);
  CHECK(relative_difference(logits_of(source.run), logits_of(source.file("affine"))) <= kExact);
}

TEST_CASE("post-norm: only query and key norms fold, the others stay") {
  const Source source({"model.placement=post", "model.qk_norm=layernorm"});
  const FoldReport report = source.fold("folded");
  REQUIRE_FALSE(report.failed);
  CHECK(report.norms == 8);
  CHECK(report.plan.norms.size() == 4);
  CHECK(load_model(source.file("folded")).config.model.norm == "layernorm");
  CHECK(load_model(source.file("folded")).config.model.qk_norm == "rmsnorm");
  const Source none({"model.placement=post"});
  CHECK(none.fold("folded").plan.empty());
  CHECK_FALSE(fs::exists(none.file("folded")));
}

TEST_CASE("a difference beyond the tolerance is a failure and writes nothing") {
  const Source source({"model.dtype=float32"});
  FoldRequest request;
  request.model = source.run;
  request.out = source.file("folded");
  request.tolerance32 = 0;
  CHECK(run_fold(request).failed);
  CHECK_FALSE(fs::exists(request.out));
}

TEST_CASE("the comparison sees one element of one weight that is off") {
  const Source source;
  LoadedModel a = load_model(source.run), b = load_model(source.run);
  CHECK(compare_logits(*a.model, *b.model, {some_ids()}, "ids", kExact).passed);
  Tensor& weight = b.model->parameter("blocks.0.mlp.up.weight")->mutate();
  weight.data<double>()[3] += 1e-3;
  CHECK_FALSE(compare_logits(*a.model, *b.model, {some_ids()}, "ids", kExact).passed);
  weight.data<double>()[3] = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(compare_logits(*a.model, *b.model, {some_ids()}, "ids", kExact).passed);
}

TEST_CASE("P34: training goes on from a folded model as from the model before it") {
  const Source source;
  const Config layernorm = source.config;
  const Config cbwc = apply_sets(layernorm, {"model.norm=cbwc_rmsnorm"});
  Tensor expected, got;
  const std::vector<double> original = curve(layernorm, source.run, &expected);
  CHECK(original.front() - original.back() > kVisible);  // it does learn
  for (const HeadTie tied : {HeadTie::rank_one, HeadTie::untie, HeadTie::runtime}) {
    INFO(head_tie_name(tied));
    const std::string out = source.file(head_tie_name(tied));
    source.fold(head_tie_name(tied), {tied, false});
    CHECK(largest_gap(original, curve(cbwc, out, &got)) <= kCurve);
    CHECK(relative_difference(expected, got) <= kCurve);
  }
  // Negative control: the folded table without its row means put back trains another model.
  const LoadedModel folded = load_model(source.file("rank_one"));
  Trainer trainer(cbwc, 1, open_data(cbwc));
  NamedTensors state = folded.model->state();
  state.erase("head.row_means");
  trainer.model().load_state(state);
  CHECK(std::abs(trainer.step().loss - original.front()) > 1e3 * kCurve);
}

TEST_CASE("run.init refuses another architecture and another function by key") {
  const Source source({"model.qk_norm=layernorm"});
  source.fold("folded");
  const auto start = [&](const std::string& from, const Sets& sets) {
    const Config config = apply_sets(source.config, sets);
    Gpt model(gpt_config(config, open_data(config).shape.vocab), 1);
    return load_initial_weights(model, config, from);
  };
  CHECK(start(source.run, {}).size() == 1);
  CHECK(start(source.run, {"model.norm=cbwc_rmsnorm"}).size() == 1);
  CHECK(start(source.run, {"model.norm=rmsnorm"}).size() == 2);  // a warning
  CHECK(start(source.file("folded"), {"model.norm=cbwc_rmsnorm"}).size() == 1);
  const Sets heads = {"model.heads=4"}, qk = {"model.qk_norm=none"}, eps = {"model.norm_eps=1e-6"};
  CHECK_THROWS_WITH(start(source.run, heads), ContainsSubstring("model.heads is 2"));
  CHECK_THROWS_WITH(start(source.run, qk), ContainsSubstring("model.qk_norm"));
  CHECK_THROWS_WITH(start(source.run, eps), ContainsSubstring("model.norm_eps"));
  CHECK_THROWS_WITH(start(source.file("folded"), {"model.norm=rmsnorm", "model.qk_norm=rmsnorm"}),
                    ContainsSubstring("folded_tie"));
  CHECK_THROWS_WITH(start(find_config("gpt_quickstart"), {}), ContainsSubstring("is a config"));
  CHECK_THROWS_WITH(start("gpt_quickstart", {}), ContainsSubstring("is a config"));
}

TEST_CASE("checkpoints that do not fit are refused by the tensor's name") {
  const Source source;
  const Checkpoint good = read_checkpoint(source.checkpoint());
  const auto refused = [&](const std::string& message, const std::function<void(Checkpoint&)>& f) {
    Checkpoint bad = good;
    f(bad);
    write_checkpoint(source.checkpoint(), bad);
    CHECK_THROWS_WITH(source.fold("folded"), ContainsSubstring(message));
    CHECK_FALSE(fs::exists(source.file("folded")));
  };
  const auto entry = [](Checkpoint& c, const std::string& name) -> Tensor& {
    for (auto& [key, tensor] : c.tensors)
      if (key == name) return tensor;
    throw Error("no " + name);
  };
  refused("'blocks.0.attn.qkv.weight' is missing", [&](Checkpoint& c) {
    c.tensors.erase(std::find_if(c.tensors.begin(), c.tensors.end(), [](const auto& t) {
      return t.first == "model/blocks.0.attn.qkv.weight";
    }));
  });
  refused("no parameter 'blocks.7.extra'", [&](Checkpoint& c) {
    c.tensors.emplace_back("model/blocks.7.extra", Tensor::zeros({2}, DType::f64));
  });
  refused("'wpe.weight' has shape", [&](Checkpoint& c) {
    entry(c, "model/wpe.weight") = Tensor::zeros({3, 16}, DType::f64);
  });
  refused("'norm.beta' holds", [&](Checkpoint& c) {
    Tensor& t = entry(c, "model/norm.beta");
    t = t.clone();
    t.data<double>()[2] = std::numeric_limits<double>::quiet_NaN();
  });
  write_checkpoint(source.checkpoint(), good);
  std::string toml = read_bytes(source.run + "/config.toml");
  const size_t at = toml.find("norm_eps");
  toml.erase(at, toml.find('\n', at) - at);
  write_bytes(source.run + "/config.toml", toml);
  CHECK_THROWS_WITH(source.fold("folded"), ContainsSubstring("model.norm_eps is absent"));
}

TEST_CASE("the fold command: messages, exit codes, and what works on the folder") {
  TemporaryFolder folder;
  const std::string data = write_tiny_data(folder), config = folder.file("tiny.toml");
  write_bytes(config, tiny_toml(data));
  const std::string run = folder.file("run"), out = folder.file("folded");
  const auto cbwc = [&](const std::string& arguments) { return run_cbwc(folder, arguments); };
  REQUIRE(cbwc("train " + config + " --quiet --set model.norm=layernorm --out " + run).exit_code ==
          0);
  const auto folded = cbwc("fold " + run + " --out " + out + " --json " + folder.file("f.json"));
  INFO(folded.out << folded.err);
  REQUIRE(folded.exit_code == 0);
  CHECK(folded.out.find("5 of 5 LayerNorms") != std::string::npos);
  CHECK(folded.out.find("optimiser tensors were left out") != std::string::npos);
  CHECK(read_json(folder.file("f.json")).at("results").at("folded") == 5);

  const auto before = cbwc("eval " + run + " --json " + folder.file("a.json")),
             after = cbwc("eval " + out + " --json " + folder.file("b.json"));
  REQUIRE(before.exit_code == 0);
  REQUIRE(after.exit_code == 0);
  const auto loss = [&](const char* name) {
    return read_json(folder.file(name)).at("results").at("loss").get<double>();
  };
  CHECK(std::abs(loss("a.json") - loss("b.json")) <= 1e-5);
  const std::string words = " --prompt 'the norm ' --tokens 40";
  const std::string text = cbwc("generate " + run + words).out;
  CHECK(text.size() > 20);
  CHECK(cbwc("generate " + out + words).out == text);
  CHECK(cbwc("detect " + out).exit_code == 0);

  CHECK(cbwc("fold " + run + " --out " + out).exit_code == 2);  // it exists
  const auto again = cbwc("fold " + out + " --out " + folder.file("again"));
  CHECK(again.exit_code == 0);
  CHECK(again.out.find("nothing to fold") != std::string::npos);
  CHECK_FALSE(fs::exists(folder.file("again")));
  const auto carried = cbwc("fold " + run + " --carry-mean --out " + folder.file("c"));
  CHECK(carried.exit_code == 0);
  CHECK(carried.out.find("no more LayerNorms fold with it") != std::string::npos);
  CHECK(cbwc("fold " + run + " --tied both --out " + folder.file("d")).exit_code == 2);
  CHECK(cbwc("fold " + folder.file("nowhere") + " --out " + folder.file("d")).exit_code == 2);

  const auto resumed = cbwc("train --resume " + out);
  CHECK(resumed.exit_code == 2);
  CHECK(resumed.err.find("--init") != std::string::npos);
  const auto goes_on = cbwc("train " + config + " --quiet --set optim.warmup=0 --init " + out +
                            " --out " + folder.file("on"));
  INFO(goes_on.err);
  CHECK(goes_on.exit_code == 0);
  CHECK(RunDirectory::open(folder.file("on")).config().run.init == out);
}

TEST_CASE("P27: a model without LayerNorm is left alone") {
  TemporaryFolder folder;
  const std::string data = write_tiny_data(folder), config = folder.file("tiny.toml");
  write_bytes(config, tiny_toml(data));
  for (const char* norm : {"rmsnorm", "cbwc_rmsnorm", "none"}) {
    const auto result = run_cbwc(
        folder, "fold " + config + " --set model.norm=" + norm + " --out " + folder.file("out"));
    CHECK(result.exit_code == 0);
    CHECK(result.out.find("it has no LayerNorm") != std::string::npos);
    CHECK_FALSE(fs::exists(folder.file("out")));
  }
}

TEST_CASE("a fold that float32 cannot carry exits 1 and writes nothing") {
  // Positions with a mean of 1e5: the LayerNorm before the fold loses five digits to it.
  const Source source({"model.dtype=float32"}, [](Module& model) {
    Tensor& places = model.parameter("wpe.weight")->mutate();
    for (int64_t i = 0; i < places.numel(); ++i) places.data<float>()[i] += 1e5F;
  });
  const auto result =
      run_cbwc(source.folder, "fold " + source.run + " --out " + source.file("folded"));
  INFO(result.out << result.err);
  CHECK(result.exit_code == 1);
  CHECK(result.out.find("NOT EQUAL") != std::string::npos);
  CHECK(result.err.find("nothing was written") != std::string::npos);
  CHECK_FALSE(fs::exists(source.file("folded")));
}
