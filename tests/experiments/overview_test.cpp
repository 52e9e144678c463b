// The overview of comparisons made here.
#include "experiments/overview.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/check.h"
#include "experiments/json_output.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::read_bytes;
using testing::TemporaryFolder;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json entry(const std::string& arm, int seed, const std::string& metric, double value, double ms) {
  return {{"arm", arm},
          {"seed", seed},
          {"val_loss", 1.0},
          {"metric", metric},
          {"metric_value", value},
          {"metrics", {{metric, value}}},
          {"step_ms_median", ms},
          {"peak_mb", 100.0},
          {"diverged_at", nullptr},
          {"val", {{10, 2.0}, {20, 1.0}}},
          {"val_metric", {{10, value / 2}, {20, value}}}};
}

std::string write(const TemporaryFolder& folder, const std::string& name, const json& arms,
                  const json& more = json::object()) {
  const fs::path dir = folder.file(name);
  fs::create_directories(dir);
  json results = more;
  results["arms"] = arms;
  write_json((dir / "result.json").string(),
             {{"config", {{"run", {{"name", name}}}, {"compare", {{"baseline", "layernorm"}}}}},
              {"results", results}});
  return dir.string();
}

// Accuracy 0.90, 0.91, 0.92 against 0.91, 0.919, 0.931; the last seed of rmsnorm diverged.
std::string write_images(const TemporaryFolder& folder) {
  json arms = json::array();
  const double layernorm[] = {0.90, 0.91, 0.92}, cbwc[] = {0.91, 0.919, 0.931};
  for (int seed = 3; seed >= 1; --seed)
    arms.push_back(entry("layernorm", seed, "accuracy", layernorm[seed - 1], 20));
  for (int seed = 1; seed <= 3; ++seed) {
    arms.push_back(entry("rmsnorm", seed, "accuracy", layernorm[seed - 1] - 0.01 * seed, 18));
    arms.push_back(entry("cbwc_rmsnorm", seed, "accuracy", cbwc[seed - 1], 19));
    arms.back()["metrics"]["macro_f1"] = 0.8;
  }
  arms[7]["diverged_at"] = 5;  // rmsnorm, seed 3
  json norms = json::array();
  for (int i = 0; i < 4; ++i) norms.push_back({{"norm", "n"}, {"exact", i == 0}, {"reason", "r"}});
  return write(folder, "images | small", arms,
               {{"exactness", norms},
                {"references", {{{"name", "linear"}, {"metric", "accuracy"}, {"value", 0.841}}}}});
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a task's rows: means, differences by seed, words, time and references") {
  constexpr double kPrinted = 1e-4;
  const TemporaryFolder folder;
  const std::vector<OverviewTask> tasks = read_overview({write_images(folder)});
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[0].metric.name == "accuracy");
  CHECK(tasks[0].exactness == "1 of 4 norms are exact");
  REQUIRE(tasks[0].rows.size() == 4);
  const OverviewRow &base = tasks[0].rows[0], &rms = tasks[0].rows[1], &cbwc = tasks[0].rows[2];
  CHECK(base.metric.mean == Approx(91));
  CHECK(base.metric.ci95 == Approx(2.484138).margin(kPrinted));  // t_2 1 / sqrt 3
  CHECK(base.verdict.empty());
  CHECK(base.time_ratio == Approx(1));
  // Differences 1.0, 0.9, 1.1 points, whatever the order of the seeds in the file.
  CHECK(cbwc.difference.difference.mean == Approx(1));
  CHECK(cbwc.difference.difference.ci95 == Approx(0.248414).margin(kPrinted));
  CHECK(cbwc.verdict == "supported: better");
  CHECK(cbwc.time_ratio == Approx(0.95));
  REQUIRE(cbwc.others.size() == 1);
  CHECK(cbwc.others[0].second.mean == Approx(80));
  // The diverged run leaves its pair out: -1 and -2 remain.
  CHECK(rms.diverged == 1);
  CHECK(rms.metric.n == 2);
  CHECK(rms.difference.difference.n == 2);
  CHECK(rms.difference.difference.mean == Approx(-1.5));
  CHECK(rms.verdict == "within noise");
  CHECK(tasks[0].rows[3].reference);
  CHECK(tasks[0].rows[3].metric.mean == Approx(84.1));
  REQUIRE(tasks[0].curves.size() == 3);
  CHECK(tasks[0].curves[0].y.back() == Approx(91));
  CHECK(tasks[0].curves[0].high.back() == Approx(92));
}

TEST_CASE("sweep points are tasks of their own; perplexity is drawn as loss; one seed says so") {
  const TemporaryFolder folder;
  json arms = json::array();
  for (const char* label : {"dropout 0", "dropout 0.1"})
    for (const char* arm : {"layernorm", "cbwc_rmsnorm"}) {
      arms.push_back(entry(arm, 1, "perplexity", arm[0] == 'l' ? 8.0 : 7.5, 10));
      arms.back()["variant"] = label;
      arms.back()["label"] = label;
    }
  const std::vector<OverviewTask> tasks = read_overview({write(folder, "text", arms)});
  REQUIRE(tasks.size() == 2);
  CHECK(tasks[1].title == "text, dropout 0.1");
  CHECK(tasks[1].rows[1].verdict == "one seed: no interval");
  CHECK(tasks[1].rows[1].difference.difference.mean == Approx(-0.5));
  CHECK(tasks[1].curve.name == "loss");
  CHECK(tasks[1].curves[0].y.front() == Approx(2));
}

TEST_CASE("the overview's files") {
  const TemporaryFolder folder;
  const std::string images = write_images(folder);
  const std::string out = folder.file("out");
  const std::vector<std::string> paths = write_overview({images, images}, out);
  const std::string text = read_bytes(paths.at(0)), md = read_bytes(paths.at(1)),
                    html = read_bytes(paths.at(2));
  CHECK(has(text, "images | small: accuracy (top-1), %; 1 of 4 norms are exact"));
  CHECK(has(text, "+1.00 ± 0.25  supported: better"));
  CHECK(has(text, "3 (1 diverged)"));
  CHECK(has(md,
            "| images \\| small (accuracy (top-1), %) | layernorm | 3 | 91.00 ± 2.48 |  | "
            "baseline | 20.0 | 1.00 |"));
  CHECK(has(md, "|  | linear |  | 84.10 |  | reference |  |  |"));
  CHECK(has(html, "<td class=\"text\">cbwc_rmsnorm</td><td>3</td><td>92.00 ± "));
  CHECK(has(html, "Norm by norm: 1 of 4 norms are exact."));
  CHECK_FALSE(has(html, "src="));
  CHECK_FALSE(has(html, "nan"));
  if (have_gnuplot()) {
    REQUIRE(paths.size() == 5);
    CHECK(paths[3] != paths[4]);
    CHECK(has(md, "](plot-images-small.svg)"));
    CHECK(has(read_bytes(paths[3]), "<svg"));
    CHECK(has(html, "<svg"));
  } else {
    CHECK(has(html, "gnuplot-nox"));
  }
}

TEST_CASE("a metric that is measured once is drawn as the loss; one that has a curve as itself") {
  const TemporaryFolder folder;
  json arms =
      json::array({entry("layernorm", 1, "bleu", 20, 5), entry("rmsnorm", 1, "bleu", 21, 5)});
  for (json& arm : arms) arm["val_metric"] = json::array();
  const auto once = read_overview({write(folder, "translation", arms)});
  CHECK(once[0].metric.name == "bleu");
  CHECK(once[0].curve.name == "loss");
  REQUIRE(once[0].curves.size() == 2);
  CHECK(once[0].curves[0].y == std::vector<double>{2, 1});
  const auto often = read_overview({write_images(folder)});
  CHECK(often[0].curve.name == "accuracy");
  CHECK(often[0].curves[0].y.back() == Approx(91));
}

TEST_CASE("what the overview refuses") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_overview({}), Error);
  CHECK_THROWS_AS(read_overview({folder.file("none")}), Error);
  CHECK_THROWS_AS(read_overview({write(folder, "empty", json::array())}), Error);
  json arms = {entry("layernorm", 1, "accuracy", 0.9, 1), entry("rmsnorm", 1, "bleu", 20, 1)};
  CHECK_THROWS_AS(read_overview({write(folder, "mixed", arms)}), Error);
}
