// Folding a norm's gain and bias into the Linears that read it, all of them or none (cases.md P24,
// P28, P30, P33).
#include <cmath>
#include <functional>

#include "autograd/ops/activation.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "layers/compare.h"
#include "layers/embedding.h"
#include "layers/folding.h"
#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "layers/tied_linear.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"
#include "tests/support/small_modules.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kCase = 1e-8;     // the cases print nine digits
constexpr double kExact = 1e-12;   // a few roundings of float64, relative to the largest output
constexpr double kVisible = 1e-3;  // what a mistake changes
const Init kInit{1, DType::f64, 0.5};

// The affine step alone: the norm stays a LayerNorm.
template <class Model>
AffineFold plan(Model& model, const std::function<Variable(Model&)>& forward) {
  Tape tape;
  Graph graph;
  {
    const TapeScope scope(&tape);
    graph = graph_of(tape, {forward(model)}, false);
  }
  FoldPlan p;
  p.norms = {"norm"};
  plan_affine(graph, model, p);
  return p.affine.at(0);
}

template <class Model>
void apply(Model& model, const AffineFold& affine) {
  FoldPlan p;
  p.affine = {affine};
  apply_fold(model, p);
}

// LayerNorm read by two Linears, optionally by a third reader, or with one that lacks a bias.
struct Readers : Root {
  explicit Readers(bool bias = true) : down(this, "down", 3, 4, bias, kInit) {}
  LayerNorm norm{this, "norm", 3, 1e-5, true, DType::f64};
  Linear up{this, "up", 3, 4, true, kInit}, down;
  bool gate = false;
  Variable forward(const Tensor& x) {
    const Variable h = norm.forward(x, {});
    const Variable y = mul(up.forward(h), down.forward(h));
    if (!gate) return y;
    const ScopeGuard scope("router");
    return mul(y, gelu(slice(h, -1, 0, 1), Gelu::erf));
  }
};

Variable run(Readers& m) { return m.forward(sample({5, 3}, 1, "x")); }

}  // namespace

TEST_CASE("P24: gain and bias go into the next Linear, the bias from the weight as it was") {
  struct Next : Root {
    LayerNorm norm{this, "norm", 3, 1e-5, true, DType::f64};
    Linear next{this, "next", 3, 2, true, kInit};
    Variable forward() {
      return next.forward(norm.forward(Tensor::from<double>({1, 2, 4}, {1, 3}), {}));
    }
  } model;
  set(model.norm.gamma(), {2, 1, -1});
  set(model.norm.beta(), {0.5, 0, 1});
  set(model.next.weight(), {1, 2, 0, 0, -1, 3});
  set(model.next.bias(), {0, 1});
  const std::vector<double> right = {-2.172603829, 0.258354640};
  check_values(model.forward().value(), right, kCase);
  apply(model, plan<Next>(model, [](Next& m) { return m.forward(); }));
  check_values(model.next.weight()->value(), {2, 2, 0, 0, -1, -3}, 0);
  check_values(model.next.bias()->value(), {0.5, 4}, 0);
  check_values(model.norm.gamma()->value(), {1, 1, 1}, 0);
  check_values(model.norm.beta()->value(), {0, 0, 0}, 0);
  check_values(model.forward().value(), right, kCase);
}

TEST_CASE("P30: every Linear that reads the norm gets its gain; one alone would be seen") {
  for (const bool both : {true, false}) {
    Readers model;
    draw_all(model, 3);
    const Tensor before = run(model).value();
    AffineFold affine = plan<Readers>(model, run);
    REQUIRE(affine.skipped.empty());
    REQUIRE(affine.readers.size() == 2);
    if (!both) affine.readers.pop_back();
    apply(model, affine);
    const double error = relative_difference(before, run(model).value());
    CHECK((both ? error <= kExact : error >= kVisible));
  }
}

TEST_CASE("P28: all readers or none, and the other reader is named") {
  Readers model;
  draw_all(model, 5);
  model.gate = true;
  const AffineFold affine = plan<Readers>(model, run);
  CHECK(affine.readers.empty());
  CHECK(affine.skipped.find("router") != std::string::npos);
  const Tensor before = run(model).value();
  apply(model, affine);
  CHECK(same_bits(before, run(model).value()));
}

TEST_CASE("a reader without a bias takes a gain only") {
  Readers model(false);
  draw_all(model, 7);
  CHECK(plan<Readers>(model, run).skipped.find("down has no bias") != std::string::npos);
  set(model.norm.beta(), {0, 0, 0});
  const Tensor before = run(model).value();
  const AffineFold affine = plan<Readers>(model, run);
  REQUIRE(affine.skipped.empty());
  apply(model, affine);
  CHECK(relative_difference(before, run(model).value()) <= kExact);
}

TEST_CASE("P33: a head that shares the embedding keeps its norm's gain, and so the input's table") {
  struct Tied : Root {
    Embedding tokens{this, "tokens", 5, 3, Role::embedding, kInit};
    LayerNorm norm{this, "norm", 3, 1e-5, false, DType::f64};
    TiedLinear head{this, "head", tokens.weight()};
    Variable forward() {
      const Tensor ids = Tensor::from<int32_t>({0, 4, 2}, {3});
      return head.forward(norm.forward(tokens.forward(ids), {}));
    }
  } model;
  draw_all(model, 9);
  const AffineFold affine = plan<Tied>(model, [](Tied& m) { return m.forward(); });
  CHECK(affine.readers.empty());
  CHECK(affine.skipped == "'tokens.weight' of head is also read by tokens");
}

TEST_CASE("a declared output and a weight of another use are readers too") {
  Readers model;
  draw_all(model, 11);
  const auto output = [](Readers& m) { return m.norm.forward(sample({5, 3}, 1, "x"), {}); };
  CHECK(plan<Readers>(model, output).skipped.find("output") != std::string::npos);
  const auto reused = [](Readers& m) {
    return add(run(m), m.up.forward(sample({5, 3}, 2, "other")));
  };
  CHECK(plan<Readers>(model, reused).skipped.find("'up.weight'") != std::string::npos);
}
