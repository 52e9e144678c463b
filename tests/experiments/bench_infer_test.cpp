// bench infer on a tiny model: complete rows, interleaved arms, the arithmetic of intervals.
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "experiments/bench_infer.h"
#include "experiments/model_build.h"
#include "experiments/model_graph.h"
#include "experiments/report_run.h"
#include "layers/compare.h"
#include "tests/experiments/tiny_families.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

// Folded in float32: what rounding leaves of the largest logit.
constexpr double kFloat32 = 1e-4;
constexpr int kRepeats = 6;

Config tiny(const std::vector<std::string>& extra = {}) {
  return testing::tiny_config("none.h5", extra);
}

InferBenchOptions quick() {
  InferBenchOptions o;
  o.shapes = {"1x8", "2x40"};
  o.seconds = 0;
  o.least_repeats = kRepeats;
  o.decode = 3;
  return o;
}

}  // namespace

TEST_CASE("bench infer: every arm at every shape, and the folded model is the same function") {
  const InferBench bench = bench_infer(tiny(), quick());
  REQUIRE(bench.rows.size() == 6);
  CHECK(bench.norms == 5);
  CHECK(bench.all_norms == 5);
  CHECK(bench.fold_difference > 0);
  CHECK(bench.fold_difference < kFloat32);
  CHECK(bench.note.find("positions for 40 tokens, the config has 16") != std::string::npos);
  for (size_t i = 0; i < bench.rows.size(); ++i) {
    const InferRow& r = bench.rows[i];
    CHECK(r.arm == std::vector<std::string>{"layernorm", "folded", "none"}[i % 3]);
    CHECK(r.batch * r.seq == (i < 3 ? 8 : 80));
    CHECK(r.ms.size() == kRepeats);
    CHECK(r.p10_ms <= r.median_ms);
    CHECK(r.median_ms <= r.p90_ms);
    CHECK(r.tokens_per_s == Approx(1000.0 * static_cast<double>(r.batch * r.seq) / r.median_ms));
    CHECK(r.peak_mb > 0);
    CHECK(r.speedup.low <= r.speedup.ratio);
    CHECK(r.speedup.ratio <= r.speedup.high);
    CHECK(r.ceiling.ratio == bench.rows[i / 3 * 3 + 2].speedup.ratio);
    CHECK(std::isnan(r.share_of_ceiling) == !(r.ceiling.low > 1));
    CHECK(r.gemm_floor_ms > 0);
  }
  CHECK(bench.rows[0].speedup.ratio == 1);
  CHECK(bench.compared_positions == 2 * (40 + 3));  // of the lengthened context
  CHECK(bench.max_abs_difference > 0);
  CHECK(bench.max_rel_difference < kFloat32);
  CHECK(bench.argmax_agreement > 0.9);
  CHECK(bench.norm_numbers == 5 * 2 * 16);
  CHECK(bench.movable_norm_numbers == 4 * 2 * 16);  // the head has no bias for the last norm's
  REQUIRE(bench.calls.size() == 4);                 // two norms at 8 and 80 rows
  CHECK(bench.calls[3].arm == "folded");
  CHECK(bench.calls[3].rows == 80);
  CHECK(bench.calls[3].cols == 16);
  CHECK(bench.calls[3].speedup.ratio > 0);
}

TEST_CASE(
    "bench infer: every family; where not every norm folds, all RMSNorm is named as inexact") {
  const testing::TemporaryFolder folder;
  for (const testing::TinyFamily& family : testing::tiny_families(folder)) {
    INFO(family.name);
    const Config config = testing::family_config(family);
    const bool images = reads_images(config);
    const InferBench bench = bench_infer(config, quick());
    const bool part = bench.norms < bench.all_norms;
    CHECK(part == (config.model.family == "bert" || config.model.family == "swin" ||
                   config.model.family == "bloom"));
    CHECK(bench.fold_ms > 0);
    CHECK(bench.fold_difference < kFloat32);
    std::vector<std::string> arms = {"layernorm", "folded", "none"};
    if (part) arms.insert(arms.end() - 1, kAllRmsNorm);
    REQUIRE(bench.rows.size() == 2 * arms.size());
    for (size_t i = 0; i < bench.rows.size(); ++i) {
      const InferRow& r = bench.rows[i];
      CHECK(r.arm == arms[i % arms.size()]);
      CHECK(r.batch == (i < arms.size() ? 1 : 2));
      CHECK((r.seq == 0) == images);
      CHECK(r.tokens == r.batch * r.seq * (config.model.family == "encoder_decoder" ? 2 : 1));
      CHECK(r.ceiling.ratio == bench.rows[(i / arms.size() + 1) * arms.size() - 1].speedup.ratio);
      CHECK(r.peak_mb > 0);
    }
    const nlohmann::json json = infer_bench_json({bench});
    CHECK(json.at("rows")[0].at("tokens_per_s").is_null() == images);
    CHECK(json.at("models")[0].at("all_norms") == bench.all_norms);
    const std::string table = infer_bench_table(bench);
    CHECK((table.find("not exact, timing only") != std::string::npos) == part);
    CHECK((table.find("images/s") != std::string::npos) == images);
  }
}

TEST_CASE("bench infer: the sizes of a Swin's norms are those of its stages and mergings") {
  const testing::TemporaryFolder folder;
  const Config config =
      testing::family_config({"swin", testing::family_toml(folder, "swin")},
                             {"model.image=12", "model.patch=2", "model.dim=8",
                              "model.depths=[1, 1]", "model.stage_heads=[1, 2]", "model.window=3"});
  InferBenchOptions o = quick();
  o.shapes = {"2"};
  std::set<std::pair<int64_t, int64_t>> sizes;
  for (const NormCallRow& c : bench_infer(config, o).calls) sizes.insert({c.rows, c.cols});
  CHECK(sizes == std::set<std::pair<int64_t, int64_t>>{{72, 8}, {18, 32}, {18, 16}});
}

TEST_CASE("bench infer: a time budget is used up, and untied heads fold too") {
  InferBenchOptions o = quick();
  o.shapes = {"1x4"};
  o.seconds = 0.2;
  const InferBench bench = bench_infer(tiny({"model.tied_head=false"}), o);
  CHECK(bench.fold_difference < kFloat32);
  double total = 0;
  for (const InferRow& r : bench.rows) {
    CHECK(r.ms.size() == bench.rows[0].ms.size());
    for (const double ms : r.ms) total += ms;
  }
  // On a busy machine the least number of repeats may take longer than the budget.
  CHECK((bench.rows[0].ms.size() > kRepeats || total > 1000 * o.seconds));
  CHECK(bench.rows[0].ms.size() >= kRepeats);
}

TEST_CASE("bench infer: three arms run in all six orders") {
  std::set<std::vector<size_t>> seen;
  for (int r = 0; r < 6; ++r) {
    const std::vector<size_t> order = arm_order(r, 3);
    CHECK(std::set<size_t>(order.begin(), order.end()).size() == 3);
    seen.insert(order);
  }
  CHECK(seen.size() == 6);
  CHECK(arm_order(6, 3) == arm_order(0, 3));
}

TEST_CASE("bench infer: a share of the ceiling only where the ceiling is above noise") {
  // 10 % of the time saved of the 20 % that no norm saves.
  const PairedRatio speedup{6, 1 / 0.9, 1.1, 1.12}, clear{6, 1 / 0.8, 1.2, 1.3};
  CHECK(share_of_ceiling(speedup, clear) == Approx(0.5));
  const PairedRatio loss{6, 1 / 1.1, 0.9, 0.92};
  CHECK(share_of_ceiling(loss, clear) == Approx(-0.5));
  CHECK(std::isnan(share_of_ceiling(speedup, {6, 1.05, 0.99, 1.11})));
  CHECK(std::isnan(share_of_ceiling(speedup, {6, 0.9, 0.85, 0.95})));
  CHECK(std::isnan(share_of_ceiling(speedup, {1, 1.5, NAN, NAN})));
}

TEST_CASE("bench infer: the JSON rows hold what scripts rely on") {
  InferBench bench = bench_infer(tiny(), quick());
  bench.rows[1].share_of_ceiling = 0.25;
  bench.rows[2].share_of_ceiling = NAN;
  const nlohmann::json json = infer_bench_json({bench});
  REQUIRE(json.at("rows").size() == 6);
  for (const nlohmann::json& row : json.at("rows")) {
    for (const char* key :
         {"batch", "seq", "median_ms", "p10_ms", "p90_ms", "tokens_per_s", "speedup_over_layernorm",
          "ceiling_speedup", "peak_mb", "gemm_floor_ms", "over_gemm_floor"})
      CHECK(row.at(key).is_number());
    for (const char* key : {"name", "model", "arm", "dtype"}) CHECK(row.at(key).is_string());
    for (const char* key : {"speedup_ci95", "ceiling_ci95"}) CHECK(row.at(key).size() == 2);
  }
  CHECK(json.at("rows")[1].at("share_of_ceiling") == 0.25);
  CHECK(json.at("rows")[2].at("share_of_ceiling").is_null());
  CHECK(json.at("norm_calls").size() == 4);
  const std::string table = infer_bench_table(bench);
  CHECK(table.find("25 %") != std::string::npos);
  CHECK(table.find("2x40") != std::string::npos);
}

TEST_CASE("bench infer: the plan names what is left out, and nothing of that is run") {
  Config config = tiny();
  InferBenchOptions o = quick();
  InferPlan plan = plan_infer(config, o);
  REQUIRE(plan.rows.size() == 2);
  CHECK(plan.rows[0].pass_ms > 0);
  CHECK(plan.rows[1].pass_ms > plan.rows[0].pass_ms);
  CHECK(plan.seconds() == Approx(plan.rows[0].seconds + plan.rows[1].seconds));
  CHECK(plan.needed_gb > 0);

  o.most_seconds = 1e-9;
  InferBench bench = bench_infer(config, o);
  CHECK(bench.rows.empty());
  CHECK(bench.max_rel_difference < kFloat32);  // built and compared all the same
  CHECK(infer_bench_table(bench).find("more than --most-seconds") != std::string::npos);
  CHECK(infer_bench_json({bench}).at("models")[0].at("plan").at("shapes_left_out").size() == 2);

  o = quick();
  o.memory_gb = 1e-6;
  bench = bench_infer(config, o);
  CHECK(bench.rows.empty());
  CHECK(bench.plan.seconds() == 0);
  CHECK(infer_bench_table(bench).find("GB are allowed") != std::string::npos);

  plan = plan_infer(config, quick(), 16);  // trained positions cannot be lengthened
  CHECK(plan.rows[0].skipped.empty());
  CHECK(plan.rows[1].skipped.find("positions for 16 tokens") != std::string::npos);
}

TEST_CASE("bench infer: the default shapes, and Phi's memory is that of shared arms") {
  InferBenchOptions o;
  o.memory_gb = 1000;
  std::vector<std::string> shapes;
  const InferPlan plan = plan_infer(load_config("phi_1"), o);
  for (const InferPlan::Row& r : plan.rows)
    shapes.push_back(fmt::format("{}x{}", r.shape.batch, r.shape.seq));
  CHECK(shapes == std::vector<std::string>{"1x128", "1x512", "1x2048", "1x4096", "1x16384", "8x128",
                                           "8x512", "8x2048"});
  // 5.7 GB of weights: twice while an arm is built, and what the fold writes anew.
  CHECK(plan.needed_gb > 2 * 5.7);
  CHECK(plan.needed_gb < 3 * 5.7);
  CHECK(plan_infer(load_config("swin_tiny"), o).rows.size() == 2);
}

TEST_CASE("bench infer: a run's own weights, and the ways of cbwc fold") {
  const testing::TemporaryFolder folder;
  const testing::TinyFamily swin = {"swin", testing::family_toml(folder, "swin")};
  InferBenchOptions o = quick();
  o.shapes = {"2"};
  const InferBench plain = bench_infer(testing::family_config(swin), o);
  o.carry_mean = true;
  const InferBench carried = bench_infer(testing::family_config(swin), o);
  CHECK(carried.norms > plain.norms);
  CHECK(carried.max_rel_difference < kFloat32);

  o = quick();
  o.shapes = {"1x8", "1x40"};
  o.affine = true;
  LoadedModel trained;
  trained.config = tiny({"model.norm=layernorm"});
  trained.shape = {50, 50, 10, 3};
  trained.model = build_model(trained.config, trained.shape, 7);
  randomize_norms(*trained.model, 8);
  const Tensor before = trained.model->parameters()[0]->value().clone();
  const InferBench bench = bench_infer(trained.config, o, &trained);
  CHECK(bench.rows.size() == 3);  // 1x40 is beyond the positions
  CHECK(bench.note.find("the run's weights") != std::string::npos);
  CHECK(bench.max_rel_difference < kFloat32);
  CHECK(bench.max_rel_difference > 0);
  CHECK(relative_difference(before, trained.model->parameters()[0]->value()) == 0);
  trained.config.model.norm = "rmsnorm";
  CHECK_THROWS_WITH(bench_infer(trained.config, o, &trained),
                    ContainsSubstring("expected layernorm"));
}

TEST_CASE("bench infer: the picture has a panel a batch, and only what is a speedup") {
  if (!have_gnuplot()) return;
  const auto row = [](const std::string& model, const std::string& arm, int batch, int seq,
                      nlohmann::json low) {
    return nlohmann::json{{"name", "infer"},
                          {"model", model},
                          {"arm", arm},
                          {"batch", batch},
                          {"seq", seq},
                          {"speedup_over_layernorm", 1.02},
                          {"speedup_ci95", {low, 1.03}}};
  };
  nlohmann::json rows = nlohmann::json::array();
  CHECK(infer_plot_svg({{{"rows", rows}}}).empty());
  rows.push_back(row("GPT", "none", 1, 128, 1.01));
  CHECK(infer_plot_svg({{{"rows", rows}}}).empty());
  rows.push_back(row("GPT's", "folded", 1, 128, 1.01));
  rows.push_back(row("BERT", kAllRmsNorm, 8, 512, 1.01));
  rows.push_back(row("ViT", "folded", 8, 0, "nan"));  // too few repeats for an interval
  const std::string svg = infer_plot_svg({{{"rows", rows}}});
  for (const char* text : {"1 text at a time", "8 texts at a time", "images at a time",
                           "GPT's, folded (exact)", "BERT, every norm RMSNorm (not exact)"})
    CHECK(svg.find(text) != std::string::npos);
}

TEST_CASE("bench infer: without timing the fold is compared alone, in float64 too") {
  InferBenchOptions o = quick();
  o.timing = false;
  o.float64 = true;
  constexpr double kFloat64 = 1e-12;  // folded and rounded once
  const InferBench bench = bench_infer(tiny(), o);
  CHECK(bench.rows.empty());
  CHECK(bench.float64_rel_difference > 0);
  CHECK(bench.float64_rel_difference < kFloat64);
  CHECK(bench.max_rel_difference > bench.float64_rel_difference);
  const std::string table = infer_markdown({infer_bench_json({bench})});
  CHECK(table.find("| 5 | 5 |") != std::string::npos);
  CHECK(table.find(" % of 32 | 128 of 160 | – |") != std::string::npos);
}

TEST_CASE("bench infer: the Markdown tables hold each model once and every shape") {
  InferBench bench = bench_infer(tiny(), quick());
  bench.model = "Tiny";
  bench.rows[1].pays_after = 2.5;  // at 1 x 8
  const nlohmann::json first = infer_bench_json({bench});
  const nlohmann::json peer = {{"rows",
                                {{{"name", "infer"},
                                  {"by", "torch"},
                                  {"model", "Tiny"},
                                  {"arm", "layernorm"},
                                  {"batch", 2},
                                  {"seq", 40},
                                  {"median_ms", 2 * bench.rows[3].median_ms}}}}};
  const std::string table = infer_markdown({first, first, peer});
  const auto count = [&](const std::string& what) {
    size_t n = 0;
    for (size_t at = table.find(what); at != std::string::npos; at = table.find(what, at + 1)) ++n;
    return n;
  };
  CHECK(count("random weights") == 1);
  CHECK(count("\n| " + bench.model) == 6);  // one fold, two passes, two decodings, the peer
  CHECK(count("| 2 x 40 |") == 3);
  CHECK(count("| torch |") == 1);
  CHECK(count("| 2.00 x |") == 1);
  CHECK(count("\n| 80 x 16 |") == 1);
  CHECK(count("| 24 tokens |") == 1);
  bench.plan.skipped = "too large";
  bench.rows.clear();
  bench.all_norms = 0;
  CHECK(infer_markdown({infer_bench_json({bench})}).find("left out: too large") !=
        std::string::npos);
}

TEST_CASE("bench infer: refused shapes and models") {
  InferBenchOptions o = quick();
  for (const char* shape :
       {"8", "0x4", "8x4x2", "8x4096", "1x16385", "x", "99999999999x99999999999"}) {
    o.shapes = {shape};
    CHECK_THROWS_WITH(bench_infer(tiny(), o), ContainsSubstring("BATCHxSEQ"));
  }
  CHECK_THROWS_WITH(bench_infer(tiny({"model.placement=post"}), quick()),
                    ContainsSubstring("no LayerNorm of this model folds"));
}

TEST_CASE("bench infer is a command of the program") {
  const testing::TemporaryFolder folder;
  const std::string config = folder.file("tiny.toml");
  testing::write_bytes(config, testing::tiny_toml("none.h5"));
  const auto r =
      testing::run_cbwc(folder, "bench infer " + config + " " + config +
                                    " --shapes 1x8 --seconds 0 --json " + folder.file("b.json"));
  INFO(r.err);
  CHECK(r.exit_code == 0);
  const nlohmann::json json = nlohmann::json::parse(testing::read_bytes(folder.file("b.json")));
  CHECK(json.at("command") == "bench infer");
  CHECK(json.at("results").at("rows").size() == 6);
  CHECK(r.out.find("the plan") == 0);
  if (!have_gnuplot()) return;
  const auto drawn = testing::run_cbwc(
      folder, "bench infer --from " + folder.file("b.json") + " --plot " + folder.file("b.svg"));
  INFO(drawn.err);
  CHECK(drawn.exit_code == 0);
  const std::string svg = testing::read_bytes(folder.file("b.svg"));
  CHECK(svg.find("<svg") == 0);
  CHECK(svg.find("faster than LayerNorm by, %") != std::string::npos);
  CHECK(svg.find("the paper's range: 2 to 12 %") != std::string::npos);
  CHECK(svg.find("sequence length, tokens") != std::string::npos);
  CHECK(testing::run_cbwc(folder, "bench infer --from " + config + " --plot x.svg").exit_code == 2);
  CHECK(testing::run_cbwc(folder, "bench infer " + config + " --least-repeats 2").exit_code == 2);
}

TEST_CASE("bench infer --plan names every model, a folder's too, and writes its JSON") {
  const testing::TemporaryFolder folder;
  const std::string config = folder.file("tiny.toml"), report = folder.file("p.json"),
                    model = std::string(CBWC_SOURCE_DIR) + "/tests/fixtures/hf_gpt2";
  testing::write_bytes(config, testing::tiny_toml("none.h5"));
  const auto run = [&](const std::string& options) {
    const auto r = testing::run_cbwc(folder, "bench infer " + options + " --shapes 1x4 1x40");
    INFO(r.out << r.err);
    CHECK(r.exit_code == 0);
    return r.out;
  };
  const std::string text = run(model + " " + config + " --plan --json " + report);
  CHECK_THAT(text, ContainsSubstring("\nhf_gpt2: 1x4; about ") &&
                       ContainsSubstring("1x40 left out: its weights have positions for ") &&
                       ContainsSubstring("\ntiny: 1x4, 1x40; about "));
  CHECK_THAT(text, !ContainsSubstring(" 0.0 GB"));
  const nlohmann::json results = nlohmann::json::parse(testing::read_bytes(report)).at("results");
  CHECK(results.at("models").at(0).at("model") == "hf_gpt2");
  CHECK(results.at("models").at(0).at("plan").at("shapes_left_out").size() == 1);
  CHECK(results.at("models").at(1).at("plan").at("shapes_left_out").empty());
  CHECK_THAT(run(model + " --memory 1e-5 --no-timing"),
             StartsWith("hf_gpt2: left out, its arms need about "));
}
