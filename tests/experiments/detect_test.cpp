#include "experiments/detect.h"

#include <set>

#include "experiments/json_output.h"
#include "tests/experiments/detect_cases.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

std::set<std::string> centred(const Detection& d) {
  std::set<std::string> out;
  for (const CentredParameter& c : d.centre)
    out.insert(c.parameter + " " + std::to_string(c.lane.axis));
  return out;
}

}  // namespace

TEST_CASE("detect: every norm of a pre-norm GPT folds, and the tie is reported") {
  const DetectReport tied = report_of({});
  INFO(detect_table(tied));
  const Detection& d = tied.detection;
  CHECK(d.norms.size() == kNorms);
  CHECK(d.count(Verdict::foldable) == kNorms);
  REQUIRE(d.ties.size() == 1);
  CHECK(d.ties[0].parameter == "wte.weight");
  CHECK(d.ties[0].head == "head");
  CHECK(centred(d) ==
        std::set<std::string>{"wte.weight 1", "wpe.weight 1", "blocks.0.attn.out.weight 0",
                              "blocks.0.attn.out.bias 0", "blocks.0.mlp.down.weight 0",
                              "blocks.0.mlp.down.bias 0", "blocks.1.attn.out.weight 0",
                              "blocks.1.attn.out.bias 0", "blocks.1.mlp.down.weight 0",
                              "blocks.1.mlp.down.bias 0"});
  CHECK(norm_named(d, "blocks.0.norm1").leaves ==
        std::vector<std::string>{"wpe.weight", "wte.weight"});
  CHECK(norm_named(d, "norm").leaves.size() == 10);

  const DetectReport untied = report_of({"model.tied_head=false"});
  CHECK(untied.detection.count(Verdict::foldable) == kNorms);
  CHECK(untied.detection.ties.empty());
}

TEST_CASE("detect --train: element dropout blocks every norm by name; other placements do not") {
  const std::string dropout = "model.dropout=0.2";
  const DetectReport element = report_of({dropout}, true);
  INFO(detect_table(element));
  CHECK(element.detection.norms.size() == kNorms);
  CHECK(element.detection.count(Verdict::foldable) == 0);
  for (const DetectedNorm& n : element.detection.norms) {
    INFO(n.name << ": " << n.blocking << ": " << n.reason);
    CHECK(n.blocking.find("dropout") != std::string::npos);
    CHECK_FALSE(n.reason.empty());
  }
  CHECK(report_of({dropout}, false).detection.count(Verdict::foldable) == kNorms);
  for (const char* placement : {"before_projection", "path"}) {
    const std::string set = std::string("model.dropout_placement=") + placement;
    CHECK(report_of({dropout, set}, true).detection.count(Verdict::foldable) == kNorms);
  }
  // Attention-probability dropout mixes tokens, the same for all channels.
  CHECK(report_of({"model.dropout=0", "model.attention_dropout=0.2"}, true)
            .detection.count(Verdict::foldable) == kNorms);
}

TEST_CASE("detect: post-norm does not fold, each norm with a reason and a blocking module") {
  const DetectReport post = report_of({"model.placement=post"});
  INFO(detect_table(post));
  CHECK(post.detection.norms.size() == 2 * kLayers);
  CHECK(post.detection.count(Verdict::foldable) == 0);
  for (const DetectedNorm& n : post.detection.norms) {
    CHECK_FALSE(n.reason.empty());
    CHECK_FALSE(n.blocking.empty());
  }
  CHECK(post.detection.centre.empty());
  // The second norm reads the first one's affine output through the residual.
  CHECK(norm_named(post.detection, "blocks.0.norm2").blocking == "blocks.0.norm1");
}

TEST_CASE("detect: per-head QK-norms fold by centring the rows of q and k") {
  const DetectReport qk = report_of({"model.qk_norm=layernorm"});
  INFO(detect_table(qk));
  CHECK(qk.detection.norms.size() == kNorms + 2 * kLayers);
  CHECK(qk.detection.count(Verdict::foldable) == kNorms + 2 * kLayers);
  const auto& centre = qk.detection.centre;
  const auto rows = std::count_if(centre.begin(), centre.end(), [](const CentredParameter& c) {
    return c.parameter == "blocks.0.attn.qkv.weight" && c.lane.axis == 0 && c.lane.block == 8 &&
           c.lane.end <= 32;
  });
  CHECK(rows > 0);
}

TEST_CASE("detect: the CBWC arm's own graph has zero mean at every norm where equiv expects it") {
  for (const char* placement : {"element", "before_projection", "path", "centred"}) {
    INFO(placement);
    DetectReport report = report_of({"model.norm=cbwc_rmsnorm", "model.dropout=0.2",
                                     std::string("model.dropout_placement=") + placement},
                                    true);
    for (GraphNode& node : report.graph.nodes)
      if (node.op == "rms_norm") node.op = "layer_norm";
    const Detection d = detect(report.graph);
    CHECK(d.norms.size() == kNorms);
    CHECK(d.count(Verdict::foldable) == (std::string(placement) == "element" ? 0 : kNorms));
    CHECK(d.centre.empty());  // the forward pass has centred all there is to centre
  }
}

TEST_CASE("detect: a model without LayerNorm has nothing to fold") {
  for (const char* norm : {"rmsnorm", "cbwc_rmsnorm", "none"}) {
    const DetectReport report = report_of({std::string("model.norm=") + norm});
    CHECK(report.detection.norms.empty());
    CHECK(detect_table(report).find("nothing to fold") != std::string::npos);
  }
}

TEST_CASE("detect: equiv's list of what breaks the equivalence agrees with the detector") {
  const auto agree = [](std::vector<std::string> sets) {
    const Detection d = report_of(sets, true).detection;
    std::set<std::string> inexact, listed;
    for (const DetectedNorm& n : d.norms)
      if (n.verdict != Verdict::foldable) inexact.insert(n.name);
    const Config config = tiny_config("no data needed", sets);
    for (const InexactPair& pair : Gpt(gpt_config(config, 257), 1).inexact_pairs())
      listed.insert(pair.norm);
    CHECK(listed == inexact);
    return inexact.size();
  };
  size_t inexact = 0;
  for (const char* placement : {"pre", "post"})
    for (const char* dropout : {"0", "0.2"})
      // Not `centred`: its centrings run in the CBWC arm only.
      for (const char* where : {"element", "before_projection", "path"})
        for (const char* tied : {"true", "false"}) {
          INFO(placement << " " << dropout << " " << where << " " << tied);
          inexact += agree({std::string("model.placement=") + placement,
                            std::string("model.dropout=") + dropout,
                            std::string("model.dropout_placement=") + where,
                            std::string("model.tied_head=") + tied});
        }
  CHECK(inexact == 2 * kNorms + 12 * 2 * kLayers);
}

TEST_CASE("detect: the program, its JSON and its mistakes") {
  TemporaryFolder folder;
  const std::string config = folder.file("tiny.toml"), json = folder.file("d.json"),
                    dot = folder.file("d.dot");
  write_bytes(config, tiny_toml(folder.file("absent.h5")));
  const std::string line = "detect " + config + " --set model.norm=layernorm";
  const auto good = run_cbwc(folder, line + " --json " + json + " --dot " + dot);
  INFO(good.out << good.err);
  REQUIRE(good.exit_code == 0);
  CHECK(good.out.find("Evaluation mode") != std::string::npos);
  CHECK(good.out.find("5 LayerNorms: 5 foldable") != std::string::npos);
  CHECK(good.out.find("rank-one") != std::string::npos);
  check_well_formed(read_bytes(dot));
  const nlohmann::json whole = read_json(json), results = whole.at("results");
  CHECK(whole.at("command") == "detect");
  CHECK(whole.at("config").at("model").at("norm") == "layernorm");
  CHECK(results.at("mode") == "evaluation");
  REQUIRE(results.at("norms").size() == kNorms);
  for (const auto& n : results.at("norms")) {
    CHECK(n.at("verdict") == "foldable");
    CHECK(n.at("name").is_string());
    CHECK(n.at("reason").is_string());
    CHECK(n.at("blocking") == "");
    CHECK(n.at("leaves").size() >= 2);
    CHECK(n.at("auxiliary").empty());
  }
  CHECK(results.at("centre").size() == 10);
  for (const auto& c : results.at("centre")) {
    CHECK(c.at("layer").is_string());
    CHECK(c.at("parameter").is_string());
    CHECK(c.at("axis").is_number_integer());
  }
  CHECK(results.at("ties").size() == 1);
  CHECK(results.at("counts") ==
        nlohmann::json{
            {"norms", 5}, {"foldable", 5}, {"foldable_with_auxiliary", 0}, {"not_foldable", 0}});
  CHECK(results.at("elapsed_ms").is_number());
  CHECK(results.at("forward_ms").is_number());

  const auto train = run_cbwc(folder, line + " --train --json " + json);
  CHECK(train.exit_code == 0);
  CHECK(train.out.find("Training mode") != std::string::npos);
  CHECK(read_json(json).at("results").at("counts").at("foldable") == 0);
  const auto nothing = run_cbwc(folder, "detect " + config);  // the cbwc_rmsnorm arm
  CHECK(nothing.exit_code == 0);
  CHECK(nothing.out.find("nothing to fold") != std::string::npos);
  // A config that leaves the arm open is looked at in its LayerNorm arm.
  const auto shipped = run_cbwc(folder, "detect gpt_quickstart");
  CHECK(shipped.out.find("9 LayerNorms: 9 foldable") != std::string::npos);

  // A trained run: the folder, its checkpoints, one of them.
  const std::string tiny = folder.file("run.toml"), run = folder.file("r");
  write_bytes(tiny, tiny_toml(testing::write_tiny_data(folder)));
  REQUIRE(
      run_cbwc(folder, "train " + tiny + " --set model.norm=layernorm --out " + run).exit_code ==
      0);
  for (const char* part : {"", "/checkpoints", "/checkpoints/step_0000000012.h5"}) {
    const auto trained = run_cbwc(folder, "detect " + run + part);
    INFO(part << trained.out << trained.err);
    CHECK(trained.exit_code == 0);
    CHECK(trained.out.find("5 LayerNorms: 5 foldable") != std::string::npos);
  }

  const auto refused = [&](const std::string& arguments, const std::string& expected) {
    const auto r = run_cbwc(folder, arguments);
    INFO(arguments << "\n" << r.out << r.err);
    CHECK(r.exit_code == 2);
    CHECK(r.err.rfind("error: ", 0) == 0);
    CHECK(count(r.err, "\n") == 1);
    CHECK(r.err.find(expected) != std::string::npos);
  };
  refused("detect", "model");
  refused("detect no_such_model", "no_such_model");
  refused("detect " + folder.file("none.h5"), "none.h5");
  refused("detect " + folder.path(), "config.toml");
  refused("detect " + run + " --set model.norm=layernorm", "--set");
  refused(line + " --dot " + folder.path(), "is a folder");
  refused(line + " --dot " + folder.file("no/such/place.dot"), "place.dot");
  refused(line + " --json " + folder.file("no/such/place.json"), "place.json");
}
