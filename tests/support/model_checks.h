// What must hold for every trainable text model, whatever its family.
#pragma once
#include <functional>
#include <memory>

#include "layers/compare.h"
#include "layers/dropout.h"
#include "layers/model.h"
#include "layers/norm.h"

namespace cbwc::testing {

struct ModelVariant {
  Norm norm = Norm::layernorm;
  DType dtype = DType::f64;
  double dropout = 0;  // of branches and of attention
  DropoutPlacement placement = DropoutPlacement::element;
};
using MakeModel = std::function<std::unique_ptr<Model>(const ModelVariant&)>;

// Random classes for every row of the logits.
ModelTargets random_targets(const Tensor& logits, uint64_t seed);

struct ModelStep {
  double loss = 0;  // mean over the targets
  Tensor logits;
  NamedTensors gradients;
};
ModelStep model_step(Model& model, const ModelInput& input, const ModelTargets& targets,
                     const Context& context = {});
// Losses of `steps` AdamW steps (0.9, 0.95, 1e-8, decay 0.1).
std::vector<double> model_losses(Model& model, const ModelInput& input, const ModelTargets& targets,
                                 int steps, double lr);

// Every parameter gets a gradient; equal bits on repetition, with dropout and with checkpointing;
// the loss falls in every arm; the CBWC arm runs no LayerNorm and centres activations only with
// dropout placement centred; the projected arm's writers stay centred over training. `norms`: how
// many the model has.
void check_model(const MakeModel& make, int norms);

}  // namespace cbwc::testing
