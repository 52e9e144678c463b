// Cells called once per step: one verdict over all calls.
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "layers/gru_cell.h"
#include "tests/support/zoo.h"

namespace cbwc::testing {
namespace {

using Outputs = std::vector<Variable>;
constexpr int64_t kBatch = 2, kSteps = 4, kIn = 5, kDim = 8;

Variable step_input(ZooNet& n, int64_t t) {
  const Variable x = n.input("x", {kBatch, kSteps, kIn});
  return reshape(slice(x, 1, t, t + 1), {kBatch, kIn});
}
Variable no_state(ZooNet& n) { return Tensor::zeros({kBatch, kDim}, n.dtype()); }

// One norm, one pair of weights, four calls.
Outputs rnn(ZooNet& n) {
  Variable h = no_state(n);
  for (int64_t t = 0; t < kSteps; ++t) {
    const Variable x = step_input(n, t);
    const Variable from_x = n.linear("cell.x", x, kDim), from_h = n.linear("cell.h", h, kDim);
    h = n.gelu("cell.act", n.layer_norm("cell.norm", add(from_x, from_h)));
  }
  return {n.linear("head", h, 3)};
}

// The norm's sum holds the state itself, which an activation made.
Outputs residual_rnn(ZooNet& n) {
  Variable h = no_state(n);
  for (int64_t t = 0; t < kSteps; ++t) {
    const Variable sum = add(n.linear("cell.x", step_input(n, t), kDim), h);
    h = n.gelu("cell.act", n.layer_norm("cell.norm", sum));
  }
  return {n.linear("head", h, 3)};
}

CellConfig cell_config() {
  CellConfig c;
  c.in = kIn;
  c.hidden = kDim;
  c.norm_eps = 1e-3;
  return c;
}

Outputs rnn_cell(ZooNet& n) {
  Variable h = n.input("state", {kBatch, kDim});
  auto& cell = n.layer<RnnCell>("cell", cell_config(), n.init());
  for (int64_t t = 0; t < kSteps; ++t) h = cell.forward(step_input(n, t), h, n.context());
  return {n.linear("head", h, 3)};
}

Outputs gru_cell(ZooNet& n, GruForm form) {
  Variable h = n.input("state", {kBatch, kDim});
  auto& cell = n.layer<GruCell>("cell", cell_config(), form, n.init());
  for (int64_t t = 0; t < kSteps; ++t) h = cell.forward(step_input(n, t), h, n.context());
  return {n.linear("head", h, 3)};
}

}  // namespace

std::vector<ZooNetwork> zoo_recurrent() {
  const std::vector<std::string> both = {"cell.x", "cell.h"};
  return {
      network("rnn", rnn, {folds("cell.norm", {"cell.x", "cell.h"})}),
      network("rnn with a residual state", residual_rnn, {refused("cell.norm", "", {"cell.x"})}),
      network("rnn cell", rnn_cell, {folds("cell.norm", both)}),
      network("gru, a norm per gate", [](ZooNet& n) { return gru_cell(n, GruForm::separate); },
              {folds("cell.norm_r", both), folds("cell.norm_z", both),
               folds("cell.norm_x", {"cell.x"}), folds("cell.norm_h", {"cell.h"})}),
      // r (U h + c) scales every channel apart, inside the sum that is normed.
      network(
          "gru, a norm of the gated sum", [](ZooNet& n) { return gru_cell(n, GruForm::gated_sum); },
          {folds("cell.norm_r", both), folds("cell.norm_z", both), refused("cell.norm_n", "cell")}),
  };
}

}  // namespace cbwc::testing
