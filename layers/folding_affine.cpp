#include <algorithm>

#include "layers/folding.h"

namespace cbwc {
namespace {

class AffinePlanner {
 public:
  AffinePlanner(const Graph& graph, const Module& model) : graph_(graph), model_(model) {}

  AffineFold plan(const std::string& norm) {
    AffineFold fold;
    fold.norm = norm;
    nodes_.clear();
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const GraphNode& node = graph_.nodes[static_cast<size_t>(n)];
      if (node.module == norm && (node.op == "layer_norm" || node.op == "rms_norm"))
        nodes_.push_back(n);
    }
    fold.skipped = find_affine(fold);
    if (fold.skipped.empty()) fold.skipped = find_readers(fold);
    return fold;
  }

 private:
  const GraphNode& node(int n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  const GraphValue& value(int v) const { return graph_.values[static_cast<size_t>(v)]; }
  static int input(const GraphNode& node, size_t i) {
    return i < node.inputs.size() ? node.inputs[i] : -1;
  }

  // The first node outside `allowed` that reads a value, or -1.
  int reader_outside(int v, const std::vector<int>& allowed) const {
    for (int reader : value(v).readers)
      if (std::find(allowed.begin(), allowed.end(), reader) == allowed.end()) return reader;
    return -1;
  }

  std::string find_affine(AffineFold& fold) const {
    if (nodes_.empty()) return "it did not run";
    const GraphNode& first = node(nodes_[0]);
    for (const auto& [slot, name] : {std::pair{1, &fold.gamma}, std::pair{2, &fold.beta}}) {
      const int v = input(first, static_cast<size_t>(slot));
      if (v < 0) continue;
      *name = value(v).parameter;
      if (name->empty()) return "its gain or bias is computed";
      const int other = reader_outside(v, nodes_);
      if (other >= 0) return "'" + *name + "' is also read by " + graph_.node_name(other);
    }
    return fold.gamma.empty() ? "it has no gain" : "";
  }

  std::string find_readers(AffineFold& fold) const {
    std::vector<int> linears;
    for (int n : nodes_) {
      const int out = node(n).outputs.at(0);
      if (value(out).output) return "its output is declared an output of the model";
      for (int reader : value(out).readers) {
        if (node(reader).op != "linear" || input(node(reader), 0) != out)
          return graph_.node_name(reader) + " (" + node(reader).op + ") reads it and is no Linear";
        linears.push_back(reader);
      }
    }
    if (linears.empty()) return "nothing reads it";
    const bool shifts = !fold.beta.empty() && !is_zero(fold.beta);
    for (int n : linears) {
      const std::string reason = add_reader(n, linears, shifts, fold);
      if (!reason.empty()) return reason;
    }
    return "";
  }

  bool is_zero(const std::string& name) const {
    const std::vector<double> b =
        model_.parameter(name)->value().to(DType::f64).to_vector<double>();
    return std::all_of(b.begin(), b.end(), [](double x) { return x == 0; });
  }

  std::string add_reader(int n, const std::vector<int>& linears, bool shifts,
                         AffineFold& fold) const {
    const GraphNode& linear = node(n);
    const std::string who = graph_.node_name(n);
    AffineFold::Reader reader{linear.module, "", ""};
    for (const auto& [slot, name] : {std::pair{1, &reader.weight}, std::pair{2, &reader.bias}}) {
      const int v = input(linear, static_cast<size_t>(slot));
      if (v < 0) continue;
      *name = value(v).parameter;
      if (name->empty())
        return "the " + std::string(slot == 1 ? "weight" : "bias") + " of " + who + " is computed";
      const int other = reader_outside(v, linears);
      if (other >= 0)
        return "'" + *name + "' of " + who + " is also read by " + graph_.node_name(other);
    }
    if (shifts && reader.bias.empty()) return who + " has no bias that could take the norm's";
    for (const AffineFold::Reader& r : fold.readers) {
      if (r.weight == reader.weight && r.bias == reader.bias) return "";
      if (r.weight == reader.weight || (!r.bias.empty() && r.bias == reader.bias))
        return who + " shares a parameter with " + r.module;
    }
    fold.readers.push_back(reader);
    return "";
  }

  const Graph& graph_;
  const Module& model_;
  std::vector<int> nodes_;
};

}  // namespace

void plan_affine(const Graph& graph, const Module& model, FoldPlan& plan) {
  AffinePlanner planner(graph, model);
  for (const std::string& norm : plan.norms) {
    plan.affine.push_back(planner.plan(norm));
    if (!plan.affine.back().skipped.empty()) plan.affine.back().readers.clear();
  }
}

}  // namespace cbwc
