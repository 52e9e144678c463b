// A GPT small enough for exact checks in float64, its batches, and one training step's results.
#pragma once
#include "layers/compare.h"
#include "layers/gpt.h"

namespace cbwc::testing {

GptConfig small_gpt(Norm norm, DType dtype = DType::f64);

struct SmallBatch {
  Tensor ids, targets;  // (3, 8) int32
};
SmallBatch small_batch(int step);  // the formula of tests/fixtures/make_gpt.py

struct StepResult {
  double loss = 0;  // mean over the tokens
  Tensor logits;
  NamedTensors gradients;  // of the mean loss, copied
};
// One forward and backward; the gradients start from zero. dropout_seed starts a fresh stream.
StepResult run_step(Gpt& model, const SmallBatch& batch, bool training = false,
                    uint64_t dropout_seed = 1);

// What separates two models: the outputs' largest absolute difference over the largest output, and
// the gradients' as method.md 8 defines.
struct StepDifference {
  double logits = 0, loss = 0;
  Difference gradients;
};
StepDifference step_difference(const StepResult& a, const StepResult& b);

void sgd_step(const Module& model, const NamedTensors& gradients, double lr);

}  // namespace cbwc::testing
