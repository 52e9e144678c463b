#include "experiments/detect.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "experiments/model_graph.h"

namespace cbwc {
namespace {

constexpr size_t kMostRows = 60;  // of one list in the table

std::string plural(size_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

// "axis 0", or for a part of the axis the indices as well.
std::string where(const CentredParameter& c) {
  std::string out = fmt::format("axis {}", c.lane.axis);
  if (c.lane.block > 0 && (c.lane.start != 0 || c.lane.block != c.lane.end))
    out += fmt::format(", each {} of [{}, {})", c.lane.block, c.lane.start, c.lane.end);
  if (c.together > 0) out += fmt::format(", together with group {}", c.together);
  if (!c.scale.empty()) out += ", times " + c.scale;
  return out;
}

// One line a layer: "blocks.0.attn.out: weight (axis 0), bias (axis 0)".
void add_layers(const std::vector<CentredParameter>& centre, std::string& out) {
  std::vector<std::pair<std::string, std::string>> lines;
  size_t width = 0;
  for (const CentredParameter& c : centre) {
    const auto found = std::find_if(lines.begin(), lines.end(),
                                    [&](const auto& line) { return line.first == c.layer; });
    const bool own = c.parameter.rfind(c.layer + ".", 0) == 0;
    const std::string item = fmt::format(
        "{} ({})", own ? c.parameter.substr(c.layer.size() + 1) : c.parameter, where(c));
    if (found != lines.end())
      found->second += ", " + item;
    else
      lines.emplace_back(c.layer, item);
    width = std::max(width, c.layer.size());
  }
  for (size_t i = 0; i < std::min(lines.size(), kMostRows); ++i)
    out += fmt::format("  {:<{}}  {}\n", lines[i].first, width, lines[i].second);
  if (lines.size() > kMostRows)
    out += fmt::format("  ... and {} (--json has all)\n",
                       plural(lines.size() - kMostRows, "more layer"));
}

void add_norms(const Detection& d, std::string& out) {
  size_t name = 4, verdict = 7;
  for (const DetectedNorm& n : d.norms) {
    name = std::max(name, n.name.size());
    verdict = std::max(verdict, std::string(verdict_name(n.verdict)).size());
  }
  const auto row = [&](const std::string& a, const std::string& b, const std::string& c,
                       const std::string& e) {
    out += fmt::format("  {:<{}}  {:<{}}  {:>6}", a, name, b, verdict, c);
    out += e.empty() ? "\n" : "  " + e + "\n";
  };
  row("norm", "verdict", "leaves", "");
  for (size_t i = 0; i < std::min(d.norms.size(), kMostRows); ++i) {
    const DetectedNorm& n = d.norms[i];
    std::string why;
    if (n.verdict != Verdict::foldable) why = n.reason;
    if (why.find(n.blocking) == std::string::npos) why = n.blocking + ": " + why;
    row(n.name, verdict_name(n.verdict), n.leaves.empty() ? "-" : std::to_string(n.leaves.size()),
        why);
  }
  if (d.norms.size() > kMostRows)
    out += fmt::format("  ... and {} (--json has all)\n",
                       plural(d.norms.size() - kMostRows, "more norm"));
}

nlohmann::json centre_json(const std::vector<CentredParameter>& centre) {
  nlohmann::json out = nlohmann::json::array();
  for (const CentredParameter& c : centre) {
    nlohmann::json one = {{"layer", c.layer},    {"parameter", c.parameter},
                          {"axis", c.lane.axis}, {"start", c.lane.start},
                          {"end", c.lane.end},   {"block", c.lane.block}};
    if (c.together > 0) one["together"] = c.together;
    if (!c.scale.empty()) one["scale"] = c.scale;
    out.push_back(one);
  }
  return out;
}

}  // namespace

DetectReport run_detect(Model& model, bool training) {
  DetectReport report;
  report.model = model.describe();
  report.training = training;
  const auto start = std::chrono::steady_clock::now();
  report.graph = record_graph(model, training);
  report.forward_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  report.detection = detect(report.graph);
  return report;
}

nlohmann::json detect_json(const DetectReport& report) {
  const Detection& d = report.detection;
  nlohmann::json norms = nlohmann::json::array(), ties = nlohmann::json::array(),
                 auxiliary = nlohmann::json::array();
  for (const DetectedNorm& n : d.norms)
    norms.push_back({{"name", n.name},
                     {"verdict", verdict_name(n.verdict)},
                     {"reason", n.reason},
                     {"blocking", n.blocking},
                     {"leaves", n.leaves},
                     {"auxiliary", n.auxiliary}});
  for (const Tie& t : d.ties) ties.push_back({{"parameter", t.parameter}, {"head", t.head}});
  for (const AuxiliaryCentring& a : d.auxiliary)
    auxiliary.push_back({{"module", a.module}, {"serves", a.serves}});
  return {{"model", report.model},
          {"mode", report.training ? "training" : "evaluation"},
          {"norms", norms},
          {"centre", centre_json(d.centre)},
          {"centre_auxiliary", centre_json(d.centre_auxiliary)},
          {"auxiliary", auxiliary},
          {"ties", ties},
          {"counts",
           {{"norms", d.norms.size()},
            {"foldable", d.count(Verdict::foldable)},
            {"foldable_with_auxiliary", d.count(Verdict::foldable_with_auxiliary)},
            {"not_foldable", d.count(Verdict::not_foldable)}}},
          {"elapsed_ms", d.elapsed_ms},
          {"forward_ms", report.forward_ms}};
}

std::string detect_table(const DetectReport& report) {
  const Detection& d = report.detection;
  std::string out = report.model + "\n";
  out += report.training ? "Training mode (dropout acts)." : "Evaluation mode (no dropout).";
  if (d.norms.empty()) return out + "\nNo LayerNorm in it: nothing to fold.\n";
  const auto count = [&](Verdict v) { return d.count(v); };
  out += fmt::format(" {}: {} foldable, {} with an added centring, {} not.\n\n",
                     plural(d.norms.size(), "LayerNorm"), count(Verdict::foldable),
                     count(Verdict::foldable_with_auxiliary), count(Verdict::not_foldable));
  add_norms(d, out);
  if (!d.centre.empty()) {
    out += "\nLayers to centre:\n";
    add_layers(d.centre, out);
  }
  if (!d.auxiliary.empty()) {
    out += "\nCentrings that would have to be added, each at every forward pass:\n";
    for (const AuxiliaryCentring& a : d.auxiliary)
      out += fmt::format("  after {}, against {} removed\n", a.module,
                         plural(static_cast<size_t>(a.serves), "centring"));
    if (!d.centre_auxiliary.empty()) out += "and with them these layers to centre:\n";
    add_layers(d.centre_auxiliary, out);
  }
  for (const Tie& t : d.ties)
    out += fmt::format(
        "\nTie: {} is also the weight of {}. `cbwc fold` keeps the tie exactly by a rank-one\n"
        "correction of the logits (default), or unties it, or centres at run time (--tied).\n",
        t.parameter, t.head);
  return out + fmt::format("\nforward pass {:.1f} ms, analysis {:.2f} ms ({})\n", report.forward_ms,
                           d.elapsed_ms, plural(report.graph.nodes.size(), "op"));
}

}  // namespace cbwc
