// `compare A B C`: every study, then one overview of all.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "experiments/json_output.h"
#include "tests/experiments/tiny_families.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::read_bytes;
using testing::run_cbwc;
using testing::TemporaryFolder;
using testing::write_bytes;
namespace fs = std::filesystem;

TEST_CASE("Several configs are compared one after the other and shown together") {
  TemporaryFolder folder;
  std::string files;
  for (const char* name : {"swin", "bert", "translation"}) {
    write_bytes(folder.file(fmt::format("{}.toml", name)), testing::family_toml(folder, name));
    files += fmt::format(" {}", folder.file(fmt::format("{}.toml", name)));
  }
  const std::string out = folder.file("all");
  const std::string line =
      fmt::format("compare{} --quiet --set run.seeds=[1,2] --out {}", files, out);
  const auto r = run_cbwc(folder, line + " --json " + folder.file("all.json"));
  INFO(r.out << r.err);
  REQUIRE(r.exit_code == 0);
  const std::string text = read_bytes(out + "/overview.txt");
  for (const char* word : {"accuracy", "BLEU", "layernorm", "cbwc_rmsnorm", "swin", "bert"}) {
    INFO(word);
    CHECK(text.find(word) != std::string::npos);
    CHECK(read_bytes(out + "/overview.html").find(word) != std::string::npos);
    CHECK(read_bytes(out + "/overview.md").find(word) != std::string::npos);
  }
  CHECK(r.out.find(text) != std::string::npos);
  for (const char* name : {"swin", "bert", "translation"})
    CHECK(fs::exists(fmt::format("{}/{}/report.html", out, name)));
  const auto comparisons = read_json(folder.file("all.json")).at("results").at("comparisons");
  REQUIRE(comparisons.size() == 3);
  for (const auto& c : comparisons) {
    CHECK(c.at("arms").size() == 6);
    CHECK(c.at("summary").size() == 3);
    CHECK_FALSE(c.at("exactness").empty());
  }
  // Not every norm of BERT is exact, and the report says which and why.
  const auto& bert = comparisons[1].at("exactness");
  CHECK(std::any_of(bert.begin(), bert.end(), [](const auto& n) { return !n.at("exact"); }));
  CHECK(read_bytes(out + "/bert/report.html").find("embedding_norm") != std::string::npos);

  for (const auto& c : comparisons) CHECK(c.at("config").at("run").at("seeds").size() == 2);

  // A second time nothing is trained, the same is written, and a plot of another name goes.
  write_bytes(out + "/plot-Another-task.svg", "<svg/>");
  REQUIRE(run_cbwc(folder, line).exit_code == 0);
  CHECK(read_bytes(out + "/overview.txt") == text);
  CHECK_FALSE(fs::exists(out + "/plot-Another-task.svg"));

  // `report` makes it again, where it was moved to.
  fs::rename(out, folder.file("moved"));
  fs::remove(folder.file("moved/overview.txt"));
  const auto again = run_cbwc(folder, "report " + folder.file("moved"));
  INFO(again.err);
  REQUIRE(again.exit_code == 0);
  CHECK(read_bytes(folder.file("moved/overview.txt")) == text);

  // Neither kind of folder takes the other's files.
  const auto refused = [&](const std::string& arguments, const std::string& expected) {
    const auto bad = run_cbwc(folder, arguments);
    INFO(arguments << "\n" << bad.err);
    CHECK(bad.exit_code == 2);
    CHECK(bad.err.find(expected) != std::string::npos);
    CHECK(std::count(bad.err.begin(), bad.err.end(), '\n') == 1);
  };
  const std::string first = folder.file("swin.toml"), second = folder.file("bert.toml");
  refused("compare " + first + " --out " + folder.file("moved"), "holds an overview");
  refused("compare " + first + " " + second + " --out " + folder.file("moved/swin"),
          "holds a run or a comparison");
  refused("eval " + folder.file("moved/swin"),
          "is a comparison; expected one of its runs, such as");
  refused("train --resume " + folder.file("moved/swin"), "is a comparison");
}

TEST_CASE("What is wrong with the last config is said before the first one trains") {
  TemporaryFolder folder;
  write_bytes(folder.file("swin.toml"), testing::family_toml(folder, "swin"));
  std::string bert = testing::family_toml(folder, "bert");
  const std::string before = fmt::format("compare {} {} --quiet --out {}", folder.file("swin.toml"),
                                         folder.file("bert.toml"), folder.file("all"));
  const auto refused = [&](const std::string& toml, const std::string& expected) {
    write_bytes(folder.file("bert.toml"), toml);
    const auto r = run_cbwc(folder, before);
    INFO(r.err);
    CHECK(r.exit_code == 2);
    CHECK(r.err.find(expected) != std::string::npos);
    CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
    CHECK_FALSE(fs::exists(folder.file("all")));
  };
  std::string wrong = bert;
  wrong.replace(wrong.find("texts.h5"), 8, "image.h5");
  refused(wrong, "no such file");
  wrong = bert;
  wrong.replace(wrong.find("context = 12"), 12, "context = 2 ");
  refused(wrong, "context");
  wrong = bert;
  wrong.replace(wrong.find("context = 12"), 12, "mlp_ratio = 0.3\ncontext = 12");
  refused(wrong, "mlp_ratio");

  fs::create_directories(folder.file("other"));
  write_bytes(folder.file("other/swin.toml"), testing::family_toml(folder, "swin"));
  const auto twice =
      run_cbwc(folder, fmt::format("compare {} {} --out {}", folder.file("swin.toml"),
                                   folder.file("other/swin.toml"), folder.file("all")));
  CHECK(twice.exit_code == 2);
  CHECK(twice.err.find("different names") != std::string::npos);
}
