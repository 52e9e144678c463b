// bench infer on a tiny model: complete rows, interleaved arms, the arithmetic of intervals.
#include <cmath>
#include <set>

#include "experiments/bench.h"
#include "experiments/model_build.h"
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
  REQUIRE(bench.calls.size() == 4);  // two norms at 8 and 80 rows
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

TEST_CASE("bench infer: refused shapes and models") {
  InferBenchOptions o = quick();
  for (const char* shape :
       {"8", "0x4", "8x4x2", "8x4096", "1x16385", "x", "99999999999x99999999999"}) {
    o.shapes = {shape};
    CHECK_THROWS_WITH(bench_infer(tiny(), o), Catch::Contains("BATCHxSEQ"));
  }
  CHECK_THROWS_WITH(bench_infer(tiny({"model.placement=post"}), quick()),
                    Catch::Contains("no LayerNorm of this model folds"));
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
  CHECK(testing::run_cbwc(folder, "bench infer " + config + " --least-repeats 2").exit_code == 2);
}
