#include "autograd/analysis/zero_mean.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "autograd/analysis/detector.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/layer_norm.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/rms_norm.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "tests/support/catch.h"
#include "tests/support/lanes.h"
#include "tests/support/op_case.h"
#include "tests/support/op_trials.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr int kTrials = 600;          // per op; each with a lane of the output and one of an input
constexpr double kExact = 1e-11;      // float64, a few dozen roundings of numbers near 1
constexpr double kNoticeable = 1e-6;  // far above rounding: a mean or a change is there

double scale_of(const Tensor& a, const Tensor& b) {
  return std::max({1.0, largest(a), largest(b)});
}

struct Counts {
  int holds = 0, needs = 0, breaks = 0;  // claims that said something about numbers
  int needless = 0, needed = 0;          // an input that need not, or had to, be zero-mean
  int blind = 0, carries = 0, tied = 0, spoils = 0;
  int spoils_seen = 0;  // of spoils: the change was there and not constant along any like lane
};

// Centres each needed input along all its lanes; alternating projections where they are several.
// `skip`: a value whose needs are left out.
std::vector<Tensor> meet_needs(const OpTrial& trial, const RecordedTrial& r, const ZeroMean& z,
                               int skip) {
  std::vector<Tensor> inputs = trial.inputs;
  for (int round = 0; round < 300; ++round) {
    double mean = 0;
    for (const ZeroMean::Need& need : z.inputs) {
      if (need.value == skip) continue;
      const auto at = std::find(r.values.begin(), r.values.end(), need.value);
      Tensor& x = inputs[static_cast<size_t>(at - r.values.begin())];
      mean = std::max(mean, largest_mean(x, need.lane));
      x = centred(x, need.lane);
    }
    if (mean < 1e-15) break;
  }
  return inputs;
}

void check_zero_mean(const OpTrial& trial, const RecordedTrial& r, Rng& rng, Counts& counts) {
  const Lane lane = random_lane(r.output.shape(), rng);
  const ZeroMean z = zero_mean(r.graph, 0, lane);
  INFO("zero mean of " << to_string(r.output.shape()) << " along " << to_string(lane));
  if (z.kind == ZeroMean::breaks) {
    CHECK(!z.reason.empty());
    ++counts.breaks;
    return;
  }
  for (const ZeroMean::Need& need : z.inputs)
    INFO("needs " << need.value << " " << to_string(need.lane));
  const Tensor y = record_trial(trial, meet_needs(trial, r, z, -1)).output;
  CHECK(largest_mean(y, lane) <= kExact * scale_of(y, r.output));
  if (largest(y) > kNoticeable) ++(z.kind == ZeroMean::holds ? counts.holds : counts.needs);
  std::set<int> values;
  for (const ZeroMean::Need& need : z.inputs) values.insert(need.value);
  for (int value : values) {
    const Tensor without = record_trial(trial, meet_needs(trial, r, z, value)).output;
    if (largest(without) <= kNoticeable) continue;
    ++(largest_mean(without, lane) > kNoticeable ? counts.needed : counts.needless);
  }
}

// A head that reads a weight along its centred axis gets the rank-one change sum(h) * shift.
void check_tied(const OpTrial& trial, const RecordedTrial& r, const Tensor& change,
                const Tensor& shift) {
  const Tensor& h = trial.inputs[0];
  const GraphNode& node = r.graph.nodes[0];
  const bool plain =
      node.op == "linear" || (!node.attributes.transpose_a && node.attributes.transpose_b);
  if (!plain || shift.rank() != 2) return;  // the same with its axes swapped
  const std::vector<double> x = h.to_vector<double>(), s = shift.to_vector<double>(),
                            d = change.to_vector<double>();
  const int64_t in = h.size(-1), out = change.size(-1);
  for (int64_t row = 0; row < h.numel() / in; ++row) {
    double sum = 0;
    for (int64_t k = 0; k < in; ++k) sum += x[row * in + k];
    for (int64_t j = 0; j < out; ++j)
      CHECK(d[row * out + j] == Approx(sum * s[j * in]).margin(kExact * 100));
  }
}

bool constant_along_something(const Tensor& change) {
  for (int axis = 0; axis < change.rank(); ++axis) {
    if (change.size(axis) > 1 && unevenness(change, whole_axis(change.shape(), axis)) < kNoticeable)
      return true;
  }
  return false;
}

// What the rules say about all the places that input i goes into together; spoils when they differ.
Shift combined_shift(const RecordedTrial& r, int i, const Lane& lane) {
  Shift all{Shift::blind, {}, {}};
  const auto& inputs = r.graph.nodes[0].inputs;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k] != r.values[i]) continue;
    const Shift s = shift(r.graph, 0, static_cast<int>(k), lane);
    if (s.kind == Shift::blind) continue;
    if (s.kind == Shift::spoils) return s;
    const bool clash = all.kind != Shift::blind && (all.kind != s.kind || all.lane != s.lane);
    if (clash) return {Shift::spoils, {}, "two places"};
    all = s;
  }
  return all;
}

void check_shift(const OpTrial& trial, const RecordedTrial& r, Rng& rng, Counts& counts) {
  const int i = static_cast<int>(rng.below(trial.inputs.size()));
  const Shape& shape = trial.inputs[i].shape();
  const Lane lane = random_lane(shape, rng);
  const Shift s = combined_shift(r, i, lane);
  std::vector<Tensor> inputs = trial.inputs;
  const Tensor added = random_shift(shape, lane, rng);
  inputs[i] = plus(inputs[i], added);
  const Tensor y = record_trial(trial, inputs).output, change = plus(y, r.output, -1);
  const double scale = scale_of(y, r.output);
  INFO("shift of input " << i << " " << to_string(shape) << " along " << to_string(lane)
                         << ", output " << to_string(y.shape()) << " along " << to_string(s.lane));
  switch (s.kind) {
    case Shift::blind:
      CHECK(largest(change) <= kExact * scale);
      ++counts.blind;
      break;
    case Shift::carries:
      CHECK(unevenness(change, s.lane) <= kExact * scale);
      counts.carries += largest(change) > kNoticeable ? 1 : 0;
      break;
    case Shift::tied:
      check_tied(trial, r, change, added);
      ++counts.tied;
      break;
    case Shift::spoils:
      CHECK(!s.reason.empty());
      ++counts.spoils;
      if (largest(change) > kNoticeable && !constant_along_something(change)) ++counts.spoils_seen;
  }
}

Counts measure(const std::string& op) {
  Counts counts;
  for (int seed = 1; seed <= kTrials; ++seed) {
    Rng rng(static_cast<uint64_t>(seed), "rules/" + op);
    const OpTrial trial = random_trial(op, rng);
    const RecordedTrial r = record_trial(trial, trial.inputs);
    INFO(op << ", seed " << seed);
    REQUIRE(r.graph.nodes.size() == 1);
    REQUIRE(r.graph.nodes[0].op == op);
    if (r.output.numel() == 0) continue;
    check_zero_mean(trial, r, rng, counts);
    check_shift(trial, r, rng, counts);
  }
  return counts;
}

bool one_of(const std::string& op, const std::set<std::string>& ops) { return ops.count(op) > 0; }

// Every name that an op of the library records, from its sources.
std::set<std::string> recorded_ops() {
  std::set<std::string> names;
  const std::regex quoted("\"([a-z][a-z_0-9]*)\"");
  const std::filesystem::path folder = std::filesystem::path(CBWC_SOURCE_DIR) / "autograd/ops";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (line.find("return ") == std::string::npos) continue;
      for (std::sregex_iterator at(line.begin(), line.end(), quoted), end; at != end; ++at)
        names.insert((*at)[1]);
    }
  }
  return names;
}

// A documented case (method.md 4) in which zero mean is lost, or a shift does not stay one.
struct Case {
  const char* what;
  std::vector<Tensor> inputs;
  TensorFunction run;
  Lane lane;  // of the first input and of the output
};

Tensor draw(const Shape& shape, const char* stream) { return sample(shape, 5, stream); }

std::vector<Case> lost_means() {
  const Shape s = {3, 4};
  const Lane rows = whole_axis(s, 1);
  const Tensor x = centred(draw(s, "x"), rows);
  const auto first = [](const std::vector<Variable>& v) -> const Variable& { return v[0]; };
  return {
      {"gelu", {x}, [=](auto& v) { return gelu(first(v), Gelu::erf); }, rows},
      {"relu", {x}, [=](auto& v) { return relu(first(v)); }, rows},
      {"silu", {x}, [=](auto& v) { return silu(first(v)); }, rows},
      {"softmax", {x}, [=](auto& v) { return softmax(first(v)); }, rows},
      {"per-channel gain", {x, draw({4}, "g")}, [](auto& v) { return mul(v[0], v[1]); }, rows},
      {"bias with a mean", {x, draw({4}, "b")}, [](auto& v) { return add(v[0], v[1]); }, rows},
      {"a number per token added",
       {x, draw({3, 1}, "b")},
       [](auto& v) { return sub(v[0], v[1]); },
       rows},
      {"a square", {x}, [](auto& v) { return mul(v[0], v[0]); }, rows},
      {"LN with a gain",
       {x, draw({4}, "g")},
       [](auto& v) { return layer_norm(v[0], v[1], {}, 1e-5); },
       rows},
      {"LN with a bias",
       {x, draw({4}, "g")},
       [](auto& v) { return layer_norm(v[0], {}, v[1], 1e-5); },
       rows},
      {"RMSNorm with a gain",
       {x, draw({4}, "g")},
       [](auto& v) { return rms_norm(v[0], v[1], {}, 1e-5); },
       rows},
      {"RMSNorm with a bias",
       {x, draw({4}, "g")},
       [](auto& v) { return rms_norm(v[0], {}, v[1], 1e-5); },
       rows},
      {"dropped elements",
       {x},
       [](auto& v) {
         Rng rng(3, "mask");
         return dropout(v[0], 0.4, rng);
       },
       rows},
      {"max over tokens", {x}, [](auto& v) { return max(v[0], {0}, true); }, whole_axis({1, 4}, 1)},
      {"padding with ones",
       {x},
       [](auto& v) { return pad(v[0], 0, 1, 0, 1.0); },
       whole_axis({4, 4}, 1)},
  };
}

std::vector<Case> spoilt_shifts() {
  const Shape s = {4, 6};
  const Lane rows = whole_axis(s, 1);
  const Tensor x = draw(s, "x");
  return {
      {"gelu", {x}, [](auto& v) { return gelu(v[0], Gelu::erf); }, rows},
      {"per-channel gain", {x, draw({6}, "g")}, [](auto& v) { return mul(v[0], v[1]); }, rows},
      {"a square", {x}, [](auto& v) { return mul(v[0], v[0]); }, rows},
      {"an RMSNorm", {x}, [](auto& v) { return rms_norm(v[0], {}, {}, 1e-5); }, rows},
      {"a Linear", {x, draw({5, 6}, "w")}, [](auto& v) { return linear(v[0], v[1], {}); }, rows},
      {"dropped elements",
       {x},
       [](auto& v) {
         Rng rng(3, "mask");
         return dropout(v[0], 0.4, rng);
       },
       rows},
      {"an LN over several tokens",
       {reshape(x, {1, 4, 6}).value()},
       [](auto& v) { return layer_norm(v[0], {}, {}, 1e-5); },
       whole_axis({1, 4, 6}, 1)},
      {"an LN over two parts",
       {x},
       [](auto& v) { return layer_norm(v[0], {}, {}, 1e-5); },
       {1, 0, 6, 3}},
  };
}

}  // namespace

TEST_CASE("every rule of the zero-mean table holds in numbers") {
  for (const std::string& op : zero_mean_table()) {
    const Counts c = measure(op);
    INFO(op << ": holds " << c.holds << ", needs " << c.needs << ", breaks " << c.breaks
            << ", needed " << c.needed << ", needless " << c.needless << "; blind " << c.blind
            << ", carries " << c.carries << ", tied " << c.tied << ", spoils " << c.spoils
            << " of which seen " << c.spoils_seen);
    // Each row says more than "no", but for the two that never keep a mean.
    if (!one_of(op, {"softmax", "dropout"})) CHECK(c.needs + c.holds >= kTrials / 20);
    if (one_of(op, {"center", "layer_norm", "centered_embedding"})) CHECK(c.holds >= kTrials / 40);
    if (one_of(op, {"center", "layer_norm", "centered_embedding", "softmax"}))
      CHECK(c.blind >= kTrials / 40);
    if (!one_of(op, {"layer_norm", "rms_norm", "softmax", "dropout"}))
      CHECK(c.carries >= (op == "attention_qkv" ? 5 : kTrials / 20));  // lanes within v are rare
    if (one_of(op, {"linear", "matmul"})) CHECK(c.tied >= 10);
    // And asks for no more than it must: the rest are groups of one element.
    CHECK(c.needed >= 4 * c.needless);
  }
}

TEST_CASE("every op of the library has a row, or is known to keep no zero mean") {
  const std::set<std::string> without = {"gelu", "relu", "silu",          "sigmoid", "tanh",
                                         "max",  "norm", "cross_entropy", "rotary"};
  const std::vector<std::string> list = zero_mean_table();
  const std::set<std::string> table(list.begin(), list.end());
  CHECK(table.size() == list.size());
  const std::set<std::string> recorded = recorded_ops();
  CHECK(recorded.size() >= 30);
  for (const std::string& op : recorded) {
    INFO(op);
    CHECK(table.count(op) + without.count(op) == 1);
  }
  for (const std::string& op : table) {
    INFO(op);
    CHECK(recorded.count(op) == 1);
  }
  const std::vector<std::string> trials = ops_with_trials();
  CHECK(std::set<std::string>(trials.begin(), trials.end()) == table);
}

TEST_CASE("what loses a zero mean is refused, and does lose it") {
  for (const Case& c : lost_means()) {
    INFO(c.what);
    const OpTrial trial{c.inputs, c.run};
    const RecordedTrial r = record_trial(trial, trial.inputs);
    const ZeroMean z = zero_mean(r.graph, 0, c.lane);
    // Refused, or asked of another input too (a bias), which has none here.
    const bool more = std::any_of(z.inputs.begin(), z.inputs.end(),
                                  [&](const auto& n) { return n.value != r.values[0]; });
    CHECK((z.kind == ZeroMean::breaks || more));
    CHECK(largest_mean(r.output, c.lane) > kNoticeable);
  }
}

TEST_CASE("what does not carry a shift on is feared, with reason") {
  for (const Case& c : spoilt_shifts()) {
    INFO(c.what);
    const OpTrial trial{c.inputs, c.run};
    const RecordedTrial r = record_trial(trial, trial.inputs);
    CHECK(shift(r.graph, 0, 0, c.lane).kind == Shift::spoils);
    Rng rng(1, "shift");
    std::vector<Tensor> inputs = c.inputs;
    inputs[0] = plus(inputs[0], random_shift(inputs[0].shape(), c.lane, rng));
    const Tensor change = plus(record_trial(trial, inputs).output, r.output, -1);
    CHECK(largest(change) > kNoticeable);
    CHECK(unevenness(change, whole_axis(change.shape(), -1)) > kNoticeable);
  }
}

TEST_CASE("an unknown op proves nothing") {
  Graph graph;
  graph.values.resize(2);
  for (GraphValue& v : graph.values) v.shape = {2, 3};
  graph.nodes.push_back({"fancy", "layer", {0}, {1}});
  graph.connect();
  const Lane rows = whole_axis({2, 3}, 1);
  CHECK(zero_mean(graph, 0, rows).kind == ZeroMean::breaks);
  CHECK(shift(graph, 0, 0, rows).kind == Shift::spoils);
}

TEST_CASE("a shift that is spread over an axis without elements changes nothing") {
  Graph graph;
  graph.values.resize(5);
  for (GraphValue& v : graph.values) v.shape = {1, 2, 0};
  graph.values[0].shape = graph.values[4].shape = {1};
  graph.values[0].parameter = "offset";
  graph.nodes.push_back({"add", "mix", {1, 0}, {2}});
  graph.nodes.push_back({"attention_qkv", "attn", {2}, {3}});
  graph.nodes.push_back({"layer_norm", "norm", {0}, {4}});
  graph.nodes[1].attributes.heads = 2;
  graph.connect();
  CHECK(zero_mean(graph, 1, whole_axis({1, 2, 0}, 2)).kind == ZeroMean::holds);
  const Detection found = detect(graph);
  CHECK(found.norms[0].verdict == Verdict::foldable);
  CHECK(found.norms[0].leaves == std::vector<std::string>{"offset"});
}

// Centring rows [0, 3) and all six rows undo each other: at most one of the two norms may have it.
TEST_CASE("of two windows of one Linear that overlap, one is refused") {
  const Tensor w = draw({6, 4}, "w");
  const Lane part{0, 0, 3, 3}, all = whole_axis({6, 4}, 0);
  CHECK(largest_mean(centred(centred(w, part), all), part) > kNoticeable);
  CHECK(largest_mean(centred(centred(w, all), part), all) > kNoticeable);

  Tape tape;
  const TapeScope recording(&tape);
  const Variable x = tape.leaf(draw({5, 4}, "x"), false);
  const Variable y = linear(x, use(std::make_shared<Parameter>("w", w, Role::weight)), {});
  const auto norm = [](const char* name, const Variable& v) {
    const ScopeGuard scope(name);
    return layer_norm(v, {}, {}, 1e-5);
  };
  const Variable a = norm("all", y), b = norm("part", slice(y, 1, 0, 3));
  const Detection found = detect(graph_of(tape, {a, b}, false));
  CHECK(found.norms.at(0).verdict == Verdict::foldable);
  CHECK(found.norms.at(1).verdict == Verdict::not_foldable);
  CHECK(found.norms.at(1).blocking == "all");
}
