#include "tests/support/model_checks.h"

#include "optim/adamw.h"
#include "tests/support/catch.h"

namespace cbwc::testing {
namespace {

struct Counts {
  int layer_norm = 0, rms_norm = 0, centred_activations = 0;
};

Counts count_ops(Model& model) {
  Tape tape;
  const TapeScope scope(&tape);
  Rng rng(1, "dropout");
  model.logits(model.example(2, 1), {true, &rng, nullptr});
  Counts out;
  for (const TapeNode& node : tape.nodes()) {
    const std::string name = node.op->name();
    out.layer_norm += name == "layer_norm";
    out.rms_norm += name == "rms_norm";
    out.centred_activations +=
        name == "center" && tape.values()[node.inputs[0]].parameter == nullptr;
  }
  return out;
}

void check_arms_on_the_tape(const MakeModel& make, int norms) {
  const Counts plain = count_ops(*make({}));
  CHECK(plain.layer_norm == norms);
  CHECK(plain.rms_norm + plain.centred_activations == 0);
  for (const Norm norm : {Norm::rmsnorm, Norm::cbwc_rmsnorm}) {
    const Counts counts = count_ops(*make({norm}));
    CHECK(counts.rms_norm == norms);
    CHECK(counts.layer_norm + counts.centred_activations == 0);
  }
  ModelVariant centred{Norm::cbwc_rmsnorm};
  centred.dropout = 0.1;
  centred.placement = DropoutPlacement::centred;
  CHECK(count_ops(*make(centred)).centred_activations > 0);
}

void check_repeats(const MakeModel& make) {
  for (const DropoutPlacement placement :
       {DropoutPlacement::element, DropoutPlacement::before_projection, DropoutPlacement::path,
        DropoutPlacement::centred}) {
    INFO(dropout_placement_name(placement));
    const auto model = make({Norm::cbwc_rmsnorm, DType::f64, 0.3, placement});
    randomize_norms(*model, 3);
    const ModelInput input = model->example(3, 1);
    const ModelTargets targets = random_targets(model->logits(input, {}).value(), 1);
    const auto run = [&](uint64_t seed, bool checkpoint) {
      Rng rng(seed, "dropout");
      Context context{true, &rng, nullptr};
      context.checkpoint = checkpoint;
      return model_step(*model, input, targets, context);
    };
    const ModelStep a = run(4, false), b = run(4, false), c = run(5, false), d = run(4, true);
    CHECK(a.loss == b.loss);
    CHECK(relative_difference(a.gradients, b.gradients).largest == 0);
    CHECK(a.loss != c.loss);
    CHECK(a.loss == d.loss);
    CHECK(relative_difference(a.gradients, d.gradients).largest == 0);
    CHECK_THROWS_AS(model->logits(input, {true, nullptr, nullptr}), Error);
  }
}

double largest_column_sum(const Model& model) {
  double worst = 0;
  for (const ParameterPtr& p : model.parameters()) {
    const std::string& name = p->name();
    if (!name.ends_with("out.weight") && !name.ends_with("mlp.down.weight")) continue;
    const Tensor& w = p->value();
    for (int64_t c = 0; c < w.size(1); ++c) {
      double total = 0;
      for (int64_t r = 0; r < w.size(0); ++r) total += w.data<double>()[r * w.size(1) + c];
      worst = std::max(worst, std::abs(total));
    }
  }
  return worst;
}

void check_training(const MakeModel& make) {
  for (const Norm norm :
       {Norm::layernorm, Norm::rmsnorm, Norm::cbwc_rmsnorm, Norm::none, Norm::cbwc_projected}) {
    INFO(norm_name(norm));
    const auto model = make({norm});
    if (norm == Norm::cbwc_projected) CHECK(largest_column_sum(*model) < 1e-13);
    if (norm == Norm::layernorm) CHECK(largest_column_sum(*model) > 1e-3);
    const ModelInput input = model->example(3, 1);
    const ModelTargets targets = random_targets(model->logits(input, {}).value(), 1);
    const std::vector<double> losses = model_losses(*model, input, targets, 12, 1e-2);
    CHECK(losses.back() < 0.9 * losses.front());
    if (norm == Norm::cbwc_projected) CHECK(largest_column_sum(*model) < 1e-13);
  }
}

}  // namespace

ModelTargets random_targets(const Tensor& logits, uint64_t seed) {
  const int64_t classes = logits.size(-1), rows = logits.numel() / classes;
  Rng rng(seed, "targets");
  std::vector<int32_t> out;
  for (int64_t i = 0; i < rows; ++i)
    out.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(classes))));
  return {Tensor::from(out, {rows})};
}

ModelStep model_step(Model& model, const ModelInput& input, const ModelTargets& targets,
                     const Context& context) {
  ModelStep out;
  out.logits = model.logits(input, {}).value();
  model.clear_grads();
  Tape tape;
  const TapeScope scope(&tape);
  const CrossEntropyResult loss = model.loss(input, targets, context);
  out.loss = loss.loss_sum.value().item() / static_cast<double>(loss.count);
  BackwardOptions options;
  options.seed = 1.0 / static_cast<double>(loss.count);
  tape.backward(loss.loss_sum, options);
  for (const auto& [name, grad] : gradients(model)) out.gradients.emplace(name, grad.clone());
  return out;
}

std::vector<double> model_losses(Model& model, const ModelInput& input, const ModelTargets& targets,
                                 int steps, double lr) {
  FlatParameters flat(model.parameters());
  AdamW optimiser(flat, {0.9, 0.95, 1e-8, 0.1});
  std::vector<double> out;
  for (int step = 0; step < steps; ++step) {
    out.push_back(model_step(model, input, targets).loss);
    optimiser.step(lr);
    model.project_parameters();
  }
  return out;
}

void check_model(const MakeModel& make, int norms) {
  const auto model = make({});
  randomize_norms(*model, 3);
  const ModelInput input = model->example(3, 1);
  const ModelTargets targets = random_targets(model->logits(input, {}).value(), 1);
  const ModelStep step = model_step(*model, input, targets);
  for (const ParameterPtr& p : model->parameters()) {
    INFO(p->name());
    if (p->trainable()) CHECK(step.gradients.contains(p->name()));
  }
  check_arms_on_the_tape(make, norms);
  check_repeats(make);
  check_training(make);
}

}  // namespace cbwc::testing
