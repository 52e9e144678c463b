// The drawing of a detection, and the table where a small graph made by hand shows more than a GPT.
#include "autograd/analysis/graph_dot.h"

#include <set>

#include "tests/experiments/detect_cases.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

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

// A stream that starts at a norm with gain and bias, as BLOOM's: `branches` norms, each in front of
// a Linear of its own that adds to the stream; all of them call `shared` when that is set.
Graph stream_after_norm(int branches, bool shared) {
  Graph graph;
  const auto value = [&](const Shape& shape, const std::string& parameter = "") {
    graph.values.push_back({shape, parameter, false, -1, {}});
    return static_cast<int>(graph.values.size()) - 1;
  };
  const Shape tokens = {2, 8}, square = {8, 8};
  const auto norm = [&](const std::string& name, int x) {
    const int gain = value({8}, name + ".gamma"), y = value(tokens);
    graph.nodes.push_back({"layer_norm", name, {x, gain, -1}, {y}});
    return y;
  };
  const int table = value({16, 8}, "wte.weight"), rows = value(tokens);
  graph.nodes.push_back({"embedding", "wte", {table}, {rows}});
  int x = norm("first", rows);
  const int weight = value(square, "blocks.shared.weight");
  for (int i = 0; i < branches; ++i) {
    const std::string block = "blocks." + std::to_string(i);
    const int normed = norm(block + ".norm", x), branch = value(tokens), sum = value(tokens);
    const int w = shared ? weight : value(square, block + ".out.weight");
    graph.nodes.push_back(
        {"linear", shared ? "blocks.shared" : block + ".out", {normed, w, -1}, {branch}});
    graph.nodes.push_back({"add", block, {x, branch}, {sum}});
    x = sum;
  }
  const int logits = value({2, 16});
  graph.nodes.push_back(
      {"linear", "head", {norm("last", x), value({16, 8}, "head.weight"), -1}, {logits}});
  graph.values[static_cast<size_t>(logits)].output = true;
  graph.connect();
  return graph;
}

constexpr const char* kFoldableFill = "#b7e4c7";
constexpr const char* kAuxiliaryFill = "#ffe8a3";
constexpr const char* kNotFoldableFill = "#f8b4b4";
constexpr const char* kLeafFill = "#cfe3ff";

}  // namespace

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

TEST_CASE("detect: an added centring is drawn and priced") {
  DetectReport report;
  report.graph = stream_after_norm(2, false);
  report.detection = detect(report.graph);
  const Detection& d = report.detection;
  const std::string dot = to_dot(report.graph, d), table = detect_table(report);
  INFO(table << dot);
  check_well_formed(dot);
  CHECK(norm_named(d, "first").verdict == Verdict::foldable);
  CHECK(box(dot, "first").find(kFoldableFill) != std::string::npos);
  CHECK(box(dot, "first").find("add one centring here (serves 3)") != std::string::npos);
  for (const char* name : {"blocks.0.norm", "blocks.1.norm", "last"}) {
    CHECK(norm_named(d, name).verdict == Verdict::foldable_with_auxiliary);
    CHECK(box(dot, name).find(kAuxiliaryFill) != std::string::npos);
  }
  CHECK(box(dot, "blocks.1.out").find("with the added centring: centre weight") !=
        std::string::npos);
  CHECK(table.find("after first, against 3 centrings removed") != std::string::npos);
  const nlohmann::json json = detect_json(report);
  CHECK(json.at("auxiliary") == nlohmann::json::parse(R"([{"module": "first", "serves": 3}])"));
  CHECK(json.at("norms")[1].at("auxiliary") == nlohmann::json::array({"first"}));
  CHECK(json.at("counts").at("foldable_with_auxiliary") == 3);
}

TEST_CASE("detect: a module called many times is one box; long lists are cut in the table only") {
  constexpr int kMany = 70;
  DetectReport report;
  report.graph = stream_after_norm(kMany, true);
  report.detection = detect(report.graph);
  const std::string dot = to_dot(report.graph, report.detection);
  check_well_formed(dot);
  CHECK(count(dot, "\"blocks.shared\" [label=") == 1);
  const std::string table = detect_table(report);
  CHECK(count(table, "\n  blocks.") < kMany);
  CHECK(table.find("... and 12 more norms") != std::string::npos);
  CHECK(detect_json(report).at("norms").size() == kMany + 2);
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
  const std::string dot = to_dot(graph, d);
  CHECK(dot.find("x &amp; y") != std::string::npos);
  CHECK(dot.find("n&lt;o&gt;") != std::string::npos);
  CHECK(dot.find("because \\\"of\\\" this") != std::string::npos);
  CHECK(count(dot, "\"input of ") == 2);  // the node and its arrow
}
