#include "autograd/analysis/norm_patterns.h"

#include "tests/support/catch.h"

using namespace cbwc;

namespace {

constexpr double kEps = 1e-5;

// What the written-out norm does differently from the plain form.
struct Form {
  Shape x = {2, 3, 4};
  Shape gamma = {4}, beta = {4};  // empty: absent
  bool self_product = false;      // c * c for pow(c, 2)
  double exponent = 2;
  int axis = 2;
  bool keepdim = true, square_keepdim = true;
  bool reciprocal_root = false;  // rsqrt and mul
  enum { after, before, on_root } gain = after;
  bool centred_is_output = false, centred_has_reader = false;
  bool variance_is_output = false, mean_has_reader = false;
  bool runtime_eps = false, known_eps = true, eps_outside = false;
  bool swap = false;  // the operands of commutative ops
};

class Builder {
 public:
  int value(Shape shape, std::string parameter = {}) {
    GraphValue v;
    v.shape = std::move(shape);
    v.parameter = std::move(parameter);
    graph.values.push_back(v);
    return static_cast<int>(graph.values.size()) - 1;
  }
  int node(const std::string& op, std::vector<int> inputs, Shape shape,
           const GraphAttributes& attributes = {}) {
    const int y = value(std::move(shape));
    graph.nodes.push_back({op, module, std::move(inputs), {y}, attributes});
    return y;
  }
  int mean(int x, int axis, bool keepdim) {
    GraphAttributes a;
    a.axes = {axis};
    a.keepdim = keepdim;
    Shape shape = graph.values[x].shape;
    keepdim ? void(shape[axis] = 1) : void(shape.erase(shape.begin() + axis));
    return node("mean", {x}, shape, a);
  }
  Graph graph;
  std::string module = "norm1";
};

std::vector<int> pair_of(const Form& f, int a, int b) {
  return f.swap ? std::vector<int>{b, a} : std::vector<int>{a, b};
}

// The square, its mean, eps and the root, or the reciprocal root.
int add_root(Builder& b, const Form& f, int centred) {
  GraphAttributes power, eps;
  power.value = f.exponent;
  if (f.known_eps && !f.runtime_eps) eps.eps = kEps;
  const int square = f.self_product ? b.node("mul", {centred, centred}, f.x)
                                    : b.node("pow", {centred, b.value({})}, f.x, power);
  const int variance = b.mean(square, 2, f.square_keepdim);
  const Shape column = b.graph.values[variance].shape;
  if (f.variance_is_output) b.graph.values[variance].output = true;
  int constant = b.value({});
  if (f.runtime_eps) constant = b.node("scale", {b.value({})}, {});
  const std::string root = f.reciprocal_root ? "rsqrt" : "sqrt";
  if (f.eps_outside)
    return b.node("add", pair_of(f, b.node(root, {variance}, column), constant), column, eps);
  return b.node(root, {b.node("add", pair_of(f, variance, constant), column, eps)}, column);
}

// linear -> the written-out norm -> linear.
Graph written_out(const Form& f) {
  Builder b;
  b.module = "first";
  const int x =
      b.node("linear", {b.value(f.x), b.value({f.x[2], f.x[2]}, "first.weight"), -1}, f.x);
  b.module = "norm1";
  const int gamma = f.gamma.empty() ? -1 : b.value(f.gamma, "norm1.gamma");
  const int mean = b.mean(x, f.axis, f.keepdim);
  int centred = b.node("sub", {x, mean}, f.x), top = centred;
  if (f.mean_has_reader) b.graph.values[b.node("relu", {mean}, {2, 3, 1})].output = true;
  if (f.centred_is_output) b.graph.values[centred].output = true;
  if (f.centred_has_reader) b.graph.values[b.node("relu", {centred}, f.x)].output = true;
  Shape wide = f.x;
  if (gamma >= 0) wide[2] = std::max(wide[2], f.gamma.back());
  if (gamma >= 0 && f.gain == Form::before) top = b.node("mul", pair_of(f, top, gamma), wide);
  int root = add_root(b, f, centred);
  if (gamma >= 0 && f.gain == Form::on_root) root = b.node("mul", pair_of(f, root, gamma), wide);
  int y = f.reciprocal_root ? b.node("mul", pair_of(f, top, root), wide)
                            : b.node("div", {top, root}, wide);
  if (gamma >= 0 && f.gain == Form::after) y = b.node("mul", pair_of(f, y, gamma), wide);
  if (!f.beta.empty()) y = b.node("add", pair_of(f, y, b.value(f.beta, "norm1.beta")), wide);
  b.module = "last";
  y = b.node("linear", {y, b.value({5, wide[2]}, "last.weight"), -1}, {2, 3, 5});
  b.graph.values[y].output = true;
  b.graph.connect();
  return b.graph;
}

NormPattern only(const Form& f, Graph* merged = nullptr) {
  const Graph graph = written_out(f);
  std::vector<NormPattern> found;
  const Graph after = merge_norm_patterns(graph, found);
  REQUIRE(found.size() == 1);
  if (!found[0].matched) {
    CHECK(after.nodes.size() == graph.nodes.size());  // left as it was
    CHECK(!found[0].reason.empty());
  }
  if (merged) *merged = after;
  return found[0];
}

void check_refused(const Form& f, const std::string& part_of_reason) {
  const NormPattern pattern = only(f);
  INFO(pattern.reason);
  CHECK(!pattern.matched);
  CHECK(pattern.reason.find(part_of_reason) != std::string::npos);
}

void check_matched(const Form& f) {
  Graph merged;
  const NormPattern pattern = only(f, &merged);
  INFO(pattern.reason);
  CHECK(pattern.matched);
  CHECK(pattern.name == "norm1");
  REQUIRE(merged.nodes.size() == 3);  // linear, layer_norm, linear
  const GraphNode& norm = merged.nodes[1];
  CHECK(norm.op == "layer_norm");
  CHECK(norm.module == "norm1");
  CHECK(norm.attributes.eps == kEps);
  CHECK(norm.attributes.axis == 2);
  REQUIRE(norm.inputs.size() == 3);
  CHECK(norm.inputs[0] == merged.nodes[0].outputs[0]);
  CHECK((norm.inputs[1] < 0) == f.gamma.empty());
  if (!f.gamma.empty()) CHECK(merged.values[norm.inputs[1]].parameter == "norm1.gamma");
  CHECK((norm.inputs[2] < 0) == f.beta.empty());
  if (!f.beta.empty()) CHECK(merged.values[norm.inputs[2]].parameter == "norm1.beta");
  CHECK(norm.outputs[0] == merged.nodes[2].inputs[0]);
  CHECK(merged.values[norm.outputs[0]].producer == 1);
  CHECK(merged.values[norm.inputs[0]].readers == std::vector<int>{1});
}

}  // namespace

TEST_CASE("a LayerNorm written out in small ops is recognised (P31)") {
  check_matched({});
  check_matched({.self_product = true});
  check_matched({.gain = Form::before});
  check_matched({.self_product = true, .gain = Form::before, .swap = true});
  check_matched({.reciprocal_root = true});
  check_matched({.reciprocal_root = true, .gain = Form::before, .swap = true});
  check_matched({.reciprocal_root = true, .gain = Form::on_root});
  check_matched({.swap = true});
  check_matched({.beta = {}});
  check_matched({.gamma = {}});
  check_matched({.gamma = {}, .beta = {}});
  check_matched({.x = {2, 3, 1}, .gamma = {1}, .beta = {1}});
}

TEST_CASE("look-alikes of LayerNorm are left alone, each with its reason (P31 a-f)") {
  check_refused({.keepdim = false}, "does not keep its axis");
  check_refused({.square_keepdim = false}, "the mean of the square does not keep its axis");
  check_refused({.x = {2, 3, 1}, .gamma = {2}, .beta = {}},
                "norm1.gamma has the shape (2), the last axis has 1");
  check_refused({.x = {2, 3, 1}, .gamma = {2}, .beta = {}, .gain = Form::before},
                "norm1.gamma has the shape (2), the last axis has 1");
  check_refused({.beta = {1}}, "norm1.beta has the shape (1), the last axis has 4");
  check_refused({.exponent = 3}, "the exponent is 3");
  check_refused({.centred_is_output = true}, "the centred value is also a declared output");
  check_refused({.centred_has_reader = true}, "the centred value has another reader");
  check_refused({.axis = 1}, "axis 1 of 3, not over the last");
  check_refused({.runtime_eps = true}, "eps is computed at run time");
  check_refused({.known_eps = false}, "eps is not a known constant");
}

TEST_CASE("further look-alikes of LayerNorm are left alone") {
  check_refused({.eps_outside = true}, "no eps is added to the variance");
  check_refused({.variance_is_output = true}, "the variance is also a declared output");
  check_refused({.mean_has_reader = true}, "the mean that is subtracted is also read by");
  check_refused({.gain = Form::on_root}, "not divided by the root");  // c / (root * gamma)

  Builder b;  // a mean of something else is no candidate
  const int x = b.value({2, 4}), z = b.value({2, 4});
  b.graph.values[b.node("sub", {x, b.mean(z, 1, true)}, {2, 4})].output = true;
  b.graph.connect();
  std::vector<NormPattern> found;
  CHECK(merge_norm_patterns(b.graph, found).nodes.size() == 2);
  CHECK(found.empty());
}

TEST_CASE("two written-out norms in one graph are merged apart") {
  Builder b;
  const Form f;
  int x = b.value(f.x);
  for (const char* module : {"a", "b"}) {
    b.module = module;
    const int centred = b.node("sub", {x, b.mean(x, 2, true)}, f.x);
    x = b.node("div", {centred, add_root(b, f, centred)}, f.x);
  }
  b.graph.values[x].output = true;
  b.graph.connect();
  std::vector<NormPattern> found;
  const Graph merged = merge_norm_patterns(b.graph, found);
  REQUIRE(found.size() == 2);
  CHECK((found[0].matched && found[1].matched));
  REQUIRE(merged.nodes.size() == 2);
  CHECK(merged.nodes[0].module == "a");
  CHECK(merged.nodes[1].inputs[0] == merged.nodes[0].outputs[0]);
}
