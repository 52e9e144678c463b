#include "autograd/analysis/norm_patterns.h"

#include <fmt/format.h>

#include <algorithm>

namespace cbwc {
namespace {

// y = gamma * c / sqrt(mean(c * c) + eps) + beta with c = x - mean(x), every mean over the last
// axis. gamma may be applied to c, to the root's reciprocal or to the quotient.
class Matcher {
 public:
  Matcher(const Graph& graph, int sub) : g_(graph), nodes_{producer(in(sub, 1)), sub} {
    x_ = in(sub, 0);
    centred_ = out(sub);
    rank_ = static_cast<int>(shape(x_).size());
  }

  // Fills reason() and returns false where a step does not fit.
  bool match() {
    return is_mean(nodes_[0], "the mean") &&
           passes_on(out(nodes_[0]), nodes_[1], "the mean that is subtracted") && variance() &&
           root() && quotient() && affine();
  }

  const std::string& reason() const { return reason_; }
  const std::vector<int>& nodes() const { return nodes_; }
  int last() const { return nodes_.back(); }
  GraphNode norm() const {
    GraphNode node{.op = "layer_norm",
                   .module = g_.nodes[last()].module,
                   .inputs = {x_, gamma_, beta_},
                   .outputs = {out(last())}};
    node.attributes.axis = rank_ - 1;
    node.attributes.eps = eps_;
    return node;
  }

 private:
  int in(int node, size_t i) const { return g_.nodes[node].inputs[i]; }
  int out(int node) const { return g_.nodes[node].outputs[0]; }
  const Shape& shape(int value) const { return g_.values[value].shape; }
  int producer(int value) const { return value < 0 ? -1 : g_.values[value].producer; }
  const std::string& op(int node) const { return g_.nodes[node].op; }
  bool fail(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }
  void take(int node) { nodes_.push_back(node); }

  // `node` is the only one that sees `value`.
  bool passes_on(int value, int node, const std::string& what) {
    const GraphValue& v = g_.values[value];
    if (v.output) return fail(what + " is also a declared output");
    for (int reader : v.readers)
      if (reader != node) return fail(what + " is also read by " + g_.node_name(reader));
    return true;
  }

  // The only reader of `value`, or -1 with a reason.
  int only_reader(int value, const std::string& what) {
    const auto& readers = g_.values[value].readers;
    if (readers.empty()) {
      fail("nothing reads " + what);
      return -1;
    }
    return passes_on(value, readers.front(), what) ? readers.front() : -1;
  }

  bool is_mean(int node, const std::string& what) {
    const GraphAttributes& a = g_.nodes[node].attributes;
    if (op(node) != "mean") return fail(what + " is a " + op(node));
    if (a.axes.size() != 1)
      return fail(what + " is over " + std::to_string(a.axes.size()) + " axes");
    if (a.axes[0] != rank_ - 1)
      return fail(what + " is over axis " + std::to_string(a.axes[0]) + " of " +
                  std::to_string(rank_) + ", not over the last");
    if (!a.keepdim) return fail(what + " does not keep its axis");
    return true;
  }

  // Whether the node squares the centred value; `mul` by itself or `pow`.
  bool squares(int node) const {
    const auto& inputs = g_.nodes[node].inputs;
    if (op(node) == "mul") return in(node, 0) == centred_ && in(node, 1) == centred_;
    return op(node) == "pow" && inputs[0] == centred_;
  }

  bool variance() {
    const GraphValue& c = g_.values[centred_];
    if (c.output) return fail("the centred value is also a declared output");
    const auto square = std::find_if(c.readers.begin(), c.readers.end(),
                                     [this](int reader) { return squares(reader); });
    if (square == c.readers.end()) return fail("the centred value is not squared");
    const GraphNode& node = g_.nodes[*square];
    if (node.op == "pow" && node.inputs.size() > 1 && producer(node.inputs[1]) >= 0)
      return fail("the exponent is computed at run time");
    if (node.op == "pow" && node.attributes.value != 2)
      return fail(fmt::format("the exponent is {:g}, not 2", node.attributes.value));
    for (int reader : c.readers)
      if (reader != *square) numerator_ = numerator_ < 0 ? reader : numerator_;
    if (numerator_ < 0) return fail("the centred value is not divided by anything");
    if (c.readers.size() > 2)
      return fail("the centred value has another reader beside its square and the quotient");
    take(*square);
    const int mean = only_reader(out(*square), "the square");
    if (mean < 0 || !is_mean(mean, "the mean of the square")) return false;
    take(mean);
    return true;
  }

  bool root() {
    const int add = only_reader(out(last()), "the variance");
    if (add < 0) return false;
    const GraphNode& node = g_.nodes[add];
    if (node.op != "add" || node.inputs.size() != 2)
      return fail("no eps is added to the variance, but a " + node.op + " follows");
    const int eps = node.inputs[0] == out(last()) ? node.inputs[1] : node.inputs[0];
    if (eps < 0 || producer(eps) >= 0) return fail("eps is computed at run time");
    if (!g_.values[eps].parameter.empty() || numel(shape(eps)) != 1 || !(node.attributes.eps > 0))
      return fail("eps is not a known constant");
    eps_ = node.attributes.eps;
    take(add);
    const int root = only_reader(out(add), "the variance plus eps");
    if (root < 0) return false;
    if (op(root) != "sqrt" && op(root) != "rsqrt")
      return fail("no root of the variance is taken, but a " + op(root) + " follows");
    inverted_ = op(root) == "rsqrt";
    take(root);
    return true;
  }

  // The other operand of a two-input node.
  int other(int node, int value) const {
    const auto& inputs = g_.nodes[node].inputs;
    if (inputs.size() != 2) return -1;
    return inputs[0] == value ? inputs[1] : inputs[0];
  }

  bool is_parameter(int value) const {
    return value >= 0 && producer(value) < 0 && !g_.values[value].parameter.empty();
  }

  // Takes `node` as the one that applies the gain or bias `value`.
  bool take_affine(int node, int value, int& slot) {
    if (shape(value) != Shape{shape(x_).back()})
      return fail(g_.values[value].parameter + " has the shape " + to_string(shape(value)) +
                  ", the last axis has " + std::to_string(shape(x_).back()));
    slot = value;
    take(node);
    return true;
  }

  bool quotient() {
    int divisor = out(last()), top = centred_;
    int node = only_reader(divisor, "the root");
    if (node < 0) return false;
    if (inverted_ && op(node) == "mul" && is_parameter(other(node, divisor))) {
      if (!take_affine(node, other(node, divisor), gamma_)) return false;
      divisor = out(node);
      node = only_reader(divisor, "the gain over the root");
      if (node < 0) return false;
    }
    if (numerator_ != node) {  // multiplied before it is divided
      if (op(numerator_) != "mul" || !is_parameter(other(numerator_, centred_)) || gamma_ >= 0)
        return fail("the centred value is not divided by the root");
      if (!take_affine(numerator_, other(numerator_, centred_), gamma_)) return false;
      top = out(numerator_);
      if (!passes_on(top, node, "the scaled centred value")) return false;
    }
    const bool fits = inverted_ ? op(node) == "mul" && other(node, divisor) == top
                                : op(node) == "div" && in(node, 0) == top && in(node, 1) == divisor;
    if (!fits) return fail("the centred value is not divided by the root");
    take(node);
    return true;
  }

  // Gain and bias after the quotient, where they follow it; other readers are none of ours.
  bool affine() {
    for (const auto& [name, slot] :
         {std::pair<const char*, int*>{"mul", &gamma_}, {"add", &beta_}}) {
      const GraphValue& y = g_.values[out(last())];
      if (*slot >= 0 || y.output || y.readers.size() != 1) continue;
      const int node = y.readers.front();
      const int operand = other(node, out(last()));
      if (op(node) != name || !is_parameter(operand) || shape(operand).size() > 1) continue;
      if (!take_affine(node, operand, *slot)) return false;
    }
    return true;
  }

  const Graph& g_;
  std::vector<int> nodes_;  // of the pattern, in the order they were found
  int x_ = -1, centred_ = -1, numerator_ = -1, gamma_ = -1, beta_ = -1, rank_ = 0;
  bool inverted_ = false;  // rsqrt
  double eps_ = 0;
  std::string reason_;
};

// A mean subtracted from its own input.
bool is_candidate(const Graph& graph, const GraphNode& node) {
  if (node.op != "sub" || node.inputs.size() != 2 || node.inputs[0] < 0 || node.inputs[1] < 0)
    return false;
  const int producer = graph.values[node.inputs[1]].producer;
  return producer >= 0 && graph.nodes[producer].op == "mean" &&
         graph.nodes[producer].inputs[0] == node.inputs[0];
}

}  // namespace

Graph merge_norm_patterns(const Graph& graph, std::vector<NormPattern>& found) {
  found.clear();
  std::vector<bool> inside(graph.nodes.size());
  std::vector<GraphNode> ends(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_candidate(graph, graph.nodes[i])) continue;
    Matcher matcher(graph, static_cast<int>(i));
    const bool matched = matcher.match();
    found.push_back({graph.node_name(matcher.last()), matched, matcher.reason()});
    if (!matched) continue;
    for (int node : matcher.nodes()) inside[node] = true;
    ends[matcher.last()] = matcher.norm();
  }
  Graph merged;
  merged.training = graph.training;
  merged.values = graph.values;
  for (GraphValue& value : merged.values) {
    value.producer = -1;
    value.readers.clear();
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!ends[i].op.empty()) merged.nodes.push_back(ends[i]);
    if (!inside[i]) merged.nodes.push_back(graph.nodes[i]);
  }
  merged.connect();
  return merged;
}

}  // namespace cbwc
