#include "experiments/detect.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "autograd/analysis/graph_dot.h"
#include "experiments/json_output.h"
#include "experiments/model_graph.h"
#include "experiments/model_setup.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::read_bytes;
using testing::run_cbwc;
using testing::TemporaryFolder;
using testing::tiny_config;
using testing::tiny_toml;
using testing::write_bytes;

namespace {

constexpr int kLayers = 2, kNorms = 2 * kLayers + 1;

DetectReport report_of(std::vector<std::string> sets, bool training = false) {
  sets.insert(sets.begin(), "model.norm=layernorm");
  const Config config = tiny_config("no data needed", sets);
  Gpt model(gpt_config(config, 257), 1);
  randomize_norms(model, 3);
  return run_detect(model, training);
}

const DetectedNorm& norm_named(const Detection& d, const std::string& name) {
  const auto found = std::find_if(d.norms.begin(), d.norms.end(),
                                  [&](const DetectedNorm& n) { return n.name == name; });
  REQUIRE(found != d.norms.end());
  return *found;
}

std::set<std::string> centred(const Detection& d) {
  std::set<std::string> out;
  for (const CentredParameter& c : d.centre)
    out.insert(c.parameter + " " + std::to_string(c.lane.axis));
  return out;
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// What Graphviz needs of the text, quoted strings and HTML labels skipped.
void check_well_formed(const std::string& dot) {
  std::map<char, int> open;
  bool quoted = false;
  int angle = 0, deepest = 0;
  for (size_t i = 0; i < dot.size(); ++i) {
    const char c = dot[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      CHECK(c != '\n');
    } else if (c == '"') {
      quoted = true;
    } else if (angle > 0 || (c == '<' && dot[i - 1] == '=')) {
      angle += (c == '<') - (c == '>');
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++open[c]);
    } else if (c == '}' || c == ']') {
      CHECK(--open[c == '}' ? '{' : '['] >= 0);
    }
  }
  CHECK_FALSE(quoted);
  CHECK(angle == 0);
  CHECK(open['{'] == 0);
  CHECK(open['['] == 0);
  CHECK(deepest > 1);
  CHECK(dot.rfind("digraph ", 0) == 0);
  CHECK(dot.substr(dot.size() - 2) == "}\n");
}

// The line that draws a box.
std::string box(const std::string& dot, const std::string& id) {
  const size_t at = dot.find("\"" + id + "\" [label=");
  REQUIRE(at != std::string::npos);
  return dot.substr(at, dot.find('\n', at) - at);
}

bool has_arrow(const std::string& dot, const std::string& from, const std::string& to,
               const std::string& style) {
  return dot.find("\"" + from + "\" -> \"" + to + "\"" + style) != std::string::npos;
}

constexpr const char* kFoldableFill = "#b7e4c7";
constexpr const char* kNotFoldableFill = "#f8b4b4";
constexpr const char* kLeafFill = "#cfe3ff";

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

TEST_CASE("detect: a model without LayerNorm has nothing to fold") {
  for (const char* norm : {"rmsnorm", "cbwc_rmsnorm", "none"}) {
    const DetectReport report = report_of({std::string("model.norm=") + norm});
    CHECK(report.detection.norms.empty());
    CHECK(detect_table(report).find("nothing to fold") != std::string::npos);
  }
}

TEST_CASE("detect: the drawing is well-formed, holds every norm, and colours by verdict") {
  const DetectReport good = report_of({}), bad = report_of({"model.dropout=0.2"}, true),
                     post = report_of({"model.placement=post"});
  for (const DetectReport* report : {&good, &bad, &post}) {
    const std::string dot = to_dot(report->graph, report->detection);
    check_well_formed(dot);
    for (const DetectedNorm& n : report->detection.norms) {
      INFO(dot);
      CHECK((box(dot, n.name).find(kFoldableFill) != std::string::npos) ==
            (n.verdict == Verdict::foldable));
      CHECK((box(dot, n.name).find(kNotFoldableFill) != std::string::npos) ==
            (n.verdict == Verdict::not_foldable));
    }
    std::set<std::string> layers;
    for (const CentredParameter& c : report->detection.centre) layers.insert(c.layer);
    for (const std::string& layer : layers)
      CHECK(box(dot, layer).find(kLeafFill) != std::string::npos);
  }
  const std::string dot = to_dot(good.graph, good.detection);
  const std::string bold = " [color=\"#1d4ed8\", penwidth=2.5]";
  CHECK(has_arrow(dot, "wte", " add 2", bold));
  CHECK_FALSE(has_arrow(dot, "blocks.0.norm1", "blocks.0.attn.qkv", bold));
  CHECK(has_arrow(dot, "blocks.0.norm1", "blocks.0.attn.qkv", ";"));
  CHECK(count(dot, "\"wte\" -> \"head\" [style=dashed") == 1);
  CHECK(count(dot, "subgraph \"cluster_blocks.0\"") == 1);
  CHECK(count(dot, "subgraph \"cluster_blocks.1.mlp\"") == 1);
  CHECK(count(to_dot(good.graph, good.detection, 0), "subgraph") == 0);
  CHECK(dot == to_dot(good.graph, good.detection));
}

TEST_CASE("detect: names of any kind cannot break the drawing") {
  Graph graph;
  graph.values.resize(4);
  graph.values[1].parameter = "a\"b.w<1>";
  graph.nodes = {{"linear", "a\"b\n{&", {0, 1, -1}, {2}}, {"layer_norm", "n<o>\\", {2, -1}, {3}}};
  graph.values[3].output = true;
  for (GraphValue& v : graph.values) v.shape = {2, 4};
  graph.values[1].shape = {4, 4};
  graph.connect();
  Detection d;
  DetectedNorm norm;
  norm.name = "n<o>\\";
  norm.reason = "because \"of\"\nthis";
  norm.blocking = "x & y";
  norm.nodes = {1};
  d.norms = {norm};
  d.centre = {{"a\"b.w<1>", "a\"b\n{&", Lane{}}};
  const std::string dot = to_dot(graph, d) + "";
  CHECK(dot.find("x &amp; y") != std::string::npos);
  CHECK(dot.find("n&lt;o&gt;") != std::string::npos);
  CHECK(dot.find("because \\\"of\\\" this") != std::string::npos);
  CHECK(count(dot, "\"input of ") == 2);  // the node and its arrow
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
  refused(line + " --dot " + folder.path(), "is a folder");
  refused(line + " --dot " + folder.file("no/such/place.dot"), "place.dot");
  refused(line + " --json " + folder.file("no/such/place.json"), "place.json");
}
