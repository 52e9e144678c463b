#include "autograd/analysis/graph_dot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/text.h"

namespace cbwc {
namespace {

// Note [What is drawn]: one box per module that has no modules inside, however many ops it records
// and however often it is called; ops that belong to a module with others inside (residual sums,
// activations) each by themselves. An edge where a box reads a value of another.

struct Style {
  const char *fill, *line, *text;
};
constexpr Style kFoldable = {"#b7e4c7", "#2d6a4f", "#000000"};
constexpr Style kAuxiliary = {"#ffe8a3", "#b7791f", "#000000"};
constexpr Style kNotFoldable = {"#f8b4b4", "#b91c1c", "#000000"};
constexpr Style kLeaf = {"#cfe3ff", "#1d4ed8", "#000000"};
constexpr Style kZeroMean = {"#ffffff", "#1d4ed8", "#000000"};
constexpr Style kOther = {"#f6f7f8", "#c4c9d0", "#6b7280"};

const Style& style_of(Verdict verdict) {
  if (verdict == Verdict::foldable) return kFoldable;
  return verdict == Verdict::foldable_with_auxiliary ? kAuxiliary : kNotFoldable;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

// "blocks.0.attn.out" -> "blocks.0", "attn", "out": a number belongs to the name before it.
std::vector<std::string> levels(const std::string& path) {
  std::vector<std::string> out;
  for (size_t at = 0; at < path.size();) {
    const size_t dot = std::min(path.find('.', at), path.size());
    const std::string part = path.substr(at, dot - at);
    if (!out.empty() && part.find_first_not_of("0123456789") == std::string::npos)
      out.back() += "." + part;
    else
      out.push_back(part);
    at = dot + 1;
  }
  return out;
}

std::string join(const std::vector<std::string>& parts, size_t from, size_t to,
                 const char* between = ".") {
  std::string out;
  for (size_t i = from; i < to; ++i) out += (i > from ? between : "") + parts[i];
  return out;
}

struct Box {
  std::string id, op;
  std::vector<std::string> cluster;  // the modules around it
  std::string label;
  const DetectedNorm* norm = nullptr;
  bool zero_mean = false;
  std::vector<std::string> notes;  // smaller lines below the name
  bool leaf = false, single = false;
};

struct Cluster {
  std::vector<std::pair<std::string, Cluster>> inside;
  std::vector<size_t> boxes;
  Cluster& get(const std::string& name) {
    for (auto& [key, cluster] : inside)
      if (key == name) return cluster;
    return inside.emplace_back(name, Cluster{}).second;
  }
};

class Drawing {
 public:
  Drawing(const Graph& graph, const Detection& detection, int depth)
      : graph_(graph), detection_(detection), depth_(static_cast<size_t>(std::max(depth, 0))) {
    make_boxes();
    mark_leaves();
    make_edges();
  }
  std::string text() const;

 private:
  void make_boxes();
  void mark_leaves();
  void make_edges();
  size_t add_box(int node, const std::string& id, bool single, const DetectedNorm* norm);
  void note(const std::string& module, const std::string& text, bool leaf);
  bool zero_mean(int node) const {
    return static_cast<size_t>(node) < detection_.zero_mean_nodes.size() &&
           detection_.zero_mean_nodes[static_cast<size_t>(node)];
  }
  std::string box_line(const Box& box) const;
  void print(const Cluster& cluster, const std::string& path, int indent, std::string& out) const;

  const Graph& graph_;
  const Detection& detection_;
  const size_t depth_;
  std::vector<Box> boxes_;
  std::vector<size_t> box_of_;                       // per node
  std::map<std::string, size_t> by_id_;              // boxes of modules and norms
  std::map<std::pair<size_t, size_t>, bool> edges_;  // true: bold
  std::set<std::pair<size_t, size_t>> ties_;
  std::vector<std::pair<size_t, bool>> ends_;  // boxes with an input (false) or an output (true)
};

size_t Drawing::add_box(int node, const std::string& id, bool single, const DetectedNorm* norm) {
  const GraphNode& n = graph_.nodes[static_cast<size_t>(node)];
  Box box;
  box.id = id;
  box.op = n.op;
  box.single = single;
  box.norm = norm;
  std::vector<std::string> parts = levels(norm != nullptr ? norm->name : n.module);
  const size_t own = single || parts.empty() ? parts.size() : parts.size() - 1;
  const size_t around = std::min(own, depth_);
  box.label = single ? n.op : join(parts, around, parts.size());
  parts.resize(around);
  box.cluster = std::move(parts);
  boxes_.push_back(std::move(box));
  return boxes_.size() - 1;
}

void Drawing::make_boxes() {
  std::set<std::string> outer;  // modules with others inside
  for (const GraphNode& n : graph_.nodes)
    for (size_t dot = n.module.rfind('.'); dot != std::string::npos && dot > 0;
         dot = n.module.rfind('.', dot - 1))
      outer.insert(n.module.substr(0, dot));
  std::vector<const DetectedNorm*> norm_of(graph_.nodes.size(), nullptr);
  for (const DetectedNorm& norm : detection_.norms)
    for (const int node : norm.nodes) norm_of[static_cast<size_t>(node)] = &norm;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const GraphNode& n = graph_.nodes[i];
    const DetectedNorm* norm = norm_of[i];
    const bool single = norm == nullptr && (n.module.empty() || outer.count(n.module) != 0);
    const std::string id = norm != nullptr ? norm->name
                           : single        ? fmt::format("{} {} {}", n.module, n.op, i)
                                           : n.module;
    const auto found = by_id_.find(id);
    const size_t box =
        found != by_id_.end() ? found->second : add_box(static_cast<int>(i), id, single, norm);
    by_id_[id] = box;
    if (norm != nullptr) boxes_[box].norm = norm;
    boxes_[box].zero_mean |= zero_mean(static_cast<int>(i));
    box_of_.push_back(box);
  }
}

void Drawing::note(const std::string& module, const std::string& text, bool leaf) {
  const auto found = by_id_.find(module);
  if (found == by_id_.end()) return;
  Box& box = boxes_[found->second];
  box.leaf |= leaf;
  box.notes.push_back(text);
}

void Drawing::mark_leaves() {
  for (const bool auxiliary : {false, true}) {
    std::vector<std::pair<std::string, std::vector<std::string>>> layers;
    for (const CentredParameter& c : auxiliary ? detection_.centre_auxiliary : detection_.centre) {
      const std::string prefix = c.layer + ".";
      const std::string name =
          c.parameter.rfind(prefix, 0) == 0 ? c.parameter.substr(prefix.size()) : c.parameter;
      const auto found = std::find_if(layers.begin(), layers.end(),
                                      [&](const auto& layer) { return layer.first == c.layer; });
      auto& names = found != layers.end()
                        ? found->second
                        : layers.emplace_back(c.layer, std::vector<std::string>{}).second;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    for (const auto& [layer, names] : layers)
      note(layer,
           (auxiliary ? "with the added centring: centre " : "centre ") +
               join(names, 0, names.size(), ", "),
           true);
  }
  for (const AuxiliaryCentring& a : detection_.auxiliary)
    note(a.module, fmt::format("add one centring here (serves {})", a.serves), false);
  for (Box& box : boxes_)
    if (box.norm != nullptr && !box.norm->blocking.empty())
      box.notes.push_back(
          (box.norm->verdict == Verdict::not_foldable ? "blocked by " : "needs one centring: ") +
          box.norm->blocking);
}

void Drawing::make_edges() {
  std::set<std::pair<size_t, bool>> ends;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const size_t to = box_of_[i];
    const DetectedNorm* norm = boxes_[to].norm;
    const bool inside =
        zero_mean(static_cast<int>(i)) || (norm != nullptr && norm->verdict == Verdict::foldable);
    for (const int value : graph_.nodes[i].inputs) {
      if (value < 0) continue;
      const GraphValue& v = graph_.values[static_cast<size_t>(value)];
      if (v.producer < 0) {
        if (v.parameter.empty()) ends.emplace(to, false);
        continue;
      }
      const size_t from = box_of_[static_cast<size_t>(v.producer)];
      if (from != to) edges_[{from, to}] |= inside && zero_mean(v.producer);
    }
    for (const int value : graph_.nodes[i].outputs)
      if (graph_.values[static_cast<size_t>(value)].output) ends.emplace(to, true);
  }
  ends_.assign(ends.begin(), ends.end());
  for (const Tie& tie : detection_.ties)
    for (const CentredParameter& c : detection_.centre) {
      const auto from = by_id_.find(c.layer), to = by_id_.find(tie.head);
      if (c.parameter == tie.parameter && from != by_id_.end() && to != by_id_.end())
        ties_.emplace(from->second, to->second);
    }
}

std::string Drawing::box_line(const Box& box) const {
  const Style& style = box.norm != nullptr ? style_of(box.norm->verdict)
                       : box.leaf          ? kLeaf
                       : box.zero_mean     ? kZeroMean
                                           : kOther;
  const std::string colours =
      fmt::format("fillcolor=\"{}\", color=\"{}\", fontcolor=\"{}\", penwidth={}", style.fill,
                  style.line, style.text, box.norm != nullptr || box.leaf ? 2 : 1);
  if (box.single && box.op == "add")
    return fmt::format("{} [label=\"+\", shape=circle, width=0.28, fixedsize=true, {}];",
                       quoted(box.id), colours);
  std::string label = escape_html(box.label);
  if (box.norm != nullptr) label = "<b>" + label + "</b>";
  for (const std::string& line : box.notes)
    label += "<br/><font point-size=\"9\">" + escape_html(line) + "</font>";
  return fmt::format("{} [label=<{}>, {}{}];", quoted(box.id), label, colours,
                     box.norm != nullptr ? ", tooltip=" + quoted(box.norm->reason) : "");
}

void Drawing::print(const Cluster& cluster, const std::string& path, int indent,
                    std::string& out) const {
  const std::string space(static_cast<size_t>(indent), ' ');
  for (const size_t box : cluster.boxes) out += space + box_line(boxes_[box]) + "\n";
  for (const auto& [name, inner] : cluster.inside) {
    const std::string full = path.empty() ? name : path + "." + name;
    out += fmt::format("{}subgraph {} {{\n{}  label={};\n", space, quoted("cluster_" + full), space,
                       quoted(name));
    print(inner, full, indent + 2, out);
    out += space + "}\n";
  }
}

// The key below the drawing.
std::string legend() {
  const auto cell = [](const Style& style, const char* text) {
    return fmt::format("<td bgcolor=\"{}\"><font color=\"#000000\">{}</font></td>", style.fill,
                       text);
  };
  return "<<table border=\"0\" cellborder=\"1\" cellspacing=\"4\" cellpadding=\"4\" "
         "color=\"#c4c9d0\"><tr>" +
         cell(kFoldable, "norm: foldable") + cell(kAuxiliary, "with one added centring") +
         cell(kNotFoldable, "not foldable") + "</tr><tr>" + cell(kLeaf, "layer to centre") +
         cell(kZeroMean, "bold arrows: zero mean") + cell(kOther, "elsewhere") + "</tr></table>>";
}

std::string Drawing::text() const {
  Cluster root;
  for (size_t i = 0; i < boxes_.size(); ++i) {
    Cluster* at = &root;
    for (const std::string& name : boxes_[i].cluster) at = &at->get(name);
    at->boxes.push_back(i);
  }
  std::string out =
      "digraph norms {\n  rankdir=TB; nodesep=0.3; ranksep=0.28; fontname=\"Helvetica\";\n";
  out += "  label=" + legend() + ";\n";
  out +=
      "  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=11, "
      "height=0.3,"
      " margin=\"0.12,0.04\"];\n"
      "  edge [color=\"#9ca3af\", arrowsize=0.6];\n"
      "  graph [style=rounded, color=\"#c4c9d0\", fontsize=10, fontcolor=\"#6b7280\", "
      "labeljust=l];\n";
  print(root, "", 2, out);
  for (const auto& [box, output] : ends_) {
    const std::string end = quoted((output ? "output of " : "input of ") + boxes_[box].id);
    out += fmt::format("  {} [label=\"{}\", shape=plaintext, style=\"\", fontsize=10];\n", end,
                       output ? "output" : "input");
    out += output ? fmt::format("  {} -> {};\n", quoted(boxes_[box].id), end)
                  : fmt::format("  {} -> {};\n", end, quoted(boxes_[box].id));
  }
  for (const auto& [ends, bold] : edges_)
    out += fmt::format("  {} -> {}{};\n", quoted(boxes_[ends.first].id),
                       quoted(boxes_[ends.second].id),
                       bold ? " [color=\"#1d4ed8\", penwidth=2.5]" : "");
  for (const auto& [from, to] : ties_)
    out += fmt::format(
        "  {} -> {} [style=dashed, dir=none, constraint=false, label=\"  tied\", "
        "fontsize=9, fontcolor=\"#6b7280\"];\n",
        quoted(boxes_[from].id), quoted(boxes_[to].id));
  return out + "}\n";
}

}  // namespace

std::string to_dot(const Graph& graph, const Detection& detection, int depth) {
  return Drawing(graph, detection, depth).text();
}

}  // namespace cbwc
