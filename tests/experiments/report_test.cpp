// The report from a comparison directory made here.
#include "experiments/report.h"

#include <fmt/format.h>

#include <cmath>

#include <filesystem>
#include <fstream>

#include "experiments/json_output.h"
#include "experiments/report_run.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;
namespace fs = std::filesystem;

namespace {

void write_run(const fs::path& dir, double offset) {
  fs::create_directories(dir);
  std::ofstream metrics(dir / "metrics.csv"), norms(dir / "norm_stats.csv");
  metrics << "step,tokens,train_loss,val_loss,lr,grad_norm,step_ms,tokens_per_s\n";
  norms << "step,norm,input_mean_over_rms,rms,gain\n";
  for (int step = 10; step <= 300; step += 10) {
    const double loss = 2 + offset + 3.5 * std::exp(-step / 60.0);
    const std::string val = step % 50 == 0 ? fmt::format("{}", loss + 0.1) : "";
    metrics << fmt::format("{},{},{},{},0.001,{},20,1e5\n", step, step * 2048, loss, val,
                           1 + offset);
    for (const char* norm : {"blocks.0.norm1", "blocks.0.norm2", "final_norm"})
      norms << fmt::format("{},{},{},{},1\n", step, norm, 0.1 * offset, 1 + step / 300.0);
  }
  metrics << "310,63";  // a row that a killed writer left
}

fs::path make_comparison(const TemporaryFolder& folder) {
  nlohmann::json arms = nlohmann::json::array(), paired = nlohmann::json::array();
  double offset = 0;
  for (const char* arm : {"layernorm", "rmsnorm", "cbwc_rmsnorm"}) {
    for (int seed = 1; seed <= 3; ++seed) {
      offset += 0.02;
      write_run(fs::path(folder.path()) / "runs" / fmt::format("{}-seed{}", arm, seed), offset);
      arms.push_back({{"arm", arm},
                      {"seed", seed},
                      {"steps", 300},
                      {"val_loss", 2.1 + offset},
                      {"step_ms_median", 20.0},
                      {"tokens_per_s", 1e5},
                      {"peak_mb", 100.0},
                      {"diverged_at", nullptr}});
    }
  }
  arms[4]["diverged_at"] = 42;
  arms[4]["val_loss"] = "nan";
  paired.push_back({{"arm", "rmsnorm"},
                    {"against", "layernorm"},
                    {"n", 2},
                    {"mean_difference", 0.06},
                    {"ci95", 0.1},
                    {"supported", false}});
  paired.push_back({{"arm", "cbwc_rmsnorm"},
                    {"against", "layernorm"},
                    {"n", 3},
                    {"mean_difference", -0.06},
                    {"ci95", 0.01},
                    {"supported", true}});
  write_json(folder.file("result.json"),
             {{"command", "compare"},
              {"machine", machine_json(Device::cpu)},
              {"config", config_json(load_config("gpt_quickstart"))},
              {"results",
               {{"arms", arms}, {"paired", paired}, {"notes", {"dropout <0.1> before norm1"}}}}});
  return folder.path();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("CSV: empty fields are nan, a cut last row is left out") {
  const TemporaryFolder folder;
  write_run(folder.path(), 0.1);
  const CsvTable table = read_csv(folder.file("metrics.csv"));
  CHECK(table.rows == 30);
  CHECK(std::isnan(table.numbers.at("val_loss")[0]));
  CHECK(table.numbers.at("step")[29] == 300);
  CHECK_THROWS_AS(read_csv(folder.file("none.csv")), Error);
  write_bytes(folder.file("other.csv"), "garb,age\n1,2\n");
  CHECK(message_of<Error>([&] { read_csv(folder.file("other.csv")); }) ==
        folder.file("other.csv") + ": no table of a run: its first line does not begin with step");
}

TEST_CASE("a comparison's report holds table, differences, notes and plots, and nothing external") {
  const TemporaryFolder folder;
  const std::string html = read_bytes(write_report(make_comparison(folder)));
  CHECK(has(html, "<title>GPT quickstart</title>"));
  CHECK(has(html, "2.1400 ± 0.0497"));  // layernorm: 2.12, 2.14, 2.16
  CHECK(has(html, "seed 2 at step 42"));
  CHECK(has(html, "within noise"));
  CHECK(has(html,
            "cbwc_rmsnorm against layernorm: validation loss -0.0600 ± 0.0100 over 3 seeds: "
            "<b>supported: better</b>"));
  CHECK(has(html, "dropout &lt;0.1&gt; before norm1"));
  CHECK_FALSE(has(html, "src="));
  CHECK_FALSE(has(html, "href=\"http"));
  if (have_gnuplot()) {
    CHECK(has(html, "<svg"));
    CHECK(has(html, "Validation loss"));
    CHECK(has(html, "cbwc_rmsnorm: mean of the norm"));
  } else {
    CHECK(has(html, "gnuplot-nox"));
  }
}

TEST_CASE("a curve is the mean over seeds with the smallest and the largest") {
  const TemporaryFolder folder;
  const ReportInput input = read_report_input(make_comparison(folder).string());
  REQUIRE(input.arms.size() == 3);
  const Curve curve = mean_curve(input.arms[0], "metrics.csv", "grad_norm");
  REQUIRE(curve.x.size() == 30);
  CHECK(curve.y[0] == Approx(1.04));
  CHECK(curve.low[0] == Approx(1.02));
  CHECK(curve.high[0] == Approx(1.06));
  CHECK(keys_of(input.arms[0], "norm_stats.csv", "norm").size() == 3);
}

TEST_CASE("a single run has a report, another folder is refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(write_report(folder.path()), Error);
  write_run(folder.path(), 0.1);
  write_json(folder.file("result.json"), {{"results", {{"val_loss", 2.5}}}});
  CHECK(has(read_bytes(write_report(folder.path())), "2.5000 (n/a)"));
}

TEST_CASE("the report shows the task's metrics, and norm by norm what is exact") {
  const TemporaryFolder folder;
  nlohmann::json arms = nlohmann::json::array(), norms = nlohmann::json::array();
  for (const char* arm : {"layernorm", "cbwc_rmsnorm"})
    for (int seed = 1; seed <= 3; ++seed) {
      const double accuracy = 0.9 + 0.001 * seed + (arm[0] == 'c' ? 0.002 : 0.0);
      arms.push_back({{"arm", arm},
                      {"seed", seed},
                      {"val_loss", 0.3},
                      {"metric", "accuracy"},
                      {"metric_value", accuracy},
                      {"metrics", {{"accuracy", accuracy}, {"macro_f1", 0.5}}},
                      {"val_metric", {{10, 0.5}, {20, accuracy}}}});
    }
  for (int i = 0; i < 13; ++i)
    norms.push_back({{"norm", fmt::format("blocks.{}.norm<1>", i)},
                     {"exact", i > 0},
                     {"reason", i > 0 ? "" : "reads a gain & bias"}});
  const nlohmann::json pair = {
      {"arm", "cbwc_rmsnorm"}, {"against", "layernorm"}, {"n", 3}, {"mean_difference", 0.0},
      {"ci95", 0.0},           {"supported", false}};
  const auto page = [&] {
    write_json(folder.file("result.json"),
               {{"results", {{"arms", arms}, {"paired", {pair}}, {"exactness", norms}}}});
    return read_bytes(write_report(folder.path()));
  };
  const std::string html = page();
  CHECK(has(html, "<th>accuracy (top-1), %</th><th>macro-F1, %</th>"));
  CHECK(has(html, "<td>90.20 ± 0.25</td><td>50.00 ± 0.00</td>"));
  CHECK_FALSE(has(html, "perplexity"));
  CHECK(has(html,
            "<b>equal in every seed</b>; accuracy (top-1), % +0.20 ± 0.00: no spread to judge by"));
  CHECK(has(html, "<summary>Norm by norm: 12 of 13 norms are exact.</summary>"));
  CHECK(has(html, "blocks.0.norm&lt;1&gt;"));
  CHECK(has(html, "reads a gain &amp; bias"));
  if (have_gnuplot()) CHECK(has(html, "Validation: accuracy"));
  norms.erase(0);
  const std::string shorter = page();
  CHECK(has(shorter, "<p>Norm by norm: all 12 norms are exact.</p>"));
  CHECK_FALSE(has(shorter, "<summary>Norm"));
}
