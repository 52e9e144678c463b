#include "tests/support/small_gpt.h"

#include <cmath>

namespace cbwc::testing {

GptConfig small_gpt(Norm norm, DType dtype) {
  GptConfig c;
  c.vocab = 31;
  c.layers = 2;
  c.dim = 16;
  c.heads = 2;
  c.context = 8;
  c.norm = norm;
  c.dtype = dtype;
  c.init_std = 0.2;  // larger than GPT-2's, so that every term matters at this size
  return c;
}

SmallBatch small_batch(int step) {
  std::vector<int32_t> ids, targets;
  for (int i = 0; i < 24; ++i) {
    ids.push_back((i * i + 3 * i + 5 * step) % 31);
    targets.push_back((2 * i * i + i + 7 * step + 1) % 31);
  }
  return {Tensor::from(ids, {3, 8}), Tensor::from(targets, {3, 8})};
}

StepResult run_step(Gpt& model, const SmallBatch& batch, bool training, uint64_t dropout_seed) {
  StepResult out;
  Rng rng(dropout_seed, "dropout");
  {
    Rng same(dropout_seed, "dropout");
    out.logits = model.logits(batch.ids, {training, &same, nullptr}).value();
  }
  model.clear_grads();
  Tape tape;
  const TapeScope scope(&tape);
  const CrossEntropyResult loss = model.loss(batch.ids, batch.targets, {training, &rng, nullptr});
  out.loss = loss.loss_sum.value().item() / static_cast<double>(loss.count);
  BackwardOptions options;
  options.seed = 1.0 / static_cast<double>(loss.count);
  tape.backward(loss.loss_sum, options);
  for (const auto& [name, grad] : gradients(model)) out.gradients.emplace(name, grad.clone());
  return out;
}

StepDifference step_difference(const StepResult& a, const StepResult& b) {
  return {relative_difference(a.logits, b.logits), std::abs(a.loss - b.loss) / std::abs(a.loss),
          relative_difference(a.gradients, b.gradients)};
}

void sgd_step(const Module& model, const NamedTensors& gradients, double lr) {
  for (const ParameterPtr& p : model.parameters()) {
    const Tensor& grad = gradients.at(p->name());
    Tensor& value = p->mutate();
    for (int64_t i = 0; i < value.numel(); ++i) {
      value.data<double>()[i] -= lr * grad.data<double>()[i];
    }
  }
}

}  // namespace cbwc::testing
