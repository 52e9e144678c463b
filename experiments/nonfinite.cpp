#include "experiments/nonfinite.h"

#include "experiments/model_build.h"
#include "layers/compare.h"

namespace cbwc {

std::string find_nonfinite(Model& model, const std::vector<Batch>& window, Rng rng) {
  for (const ParameterPtr& p : model.parameters())
    if (!all_finite(p->value())) return "parameter " + p->name() + " (its value)";
  std::string found;
  const auto look = [&](const TapeNode& node, bool backward, const std::vector<Tensor>& tensors) {
    if (!found.empty()) return;
    for (const Tensor& tensor : tensors) {
      if (all_finite(tensor)) continue;
      found = (node.scope.empty() ? std::string("model") : node.scope) + " (" + node.op->name() +
              (backward ? ", backward)" : ", forward)");
      return;
    }
  };
  model.clear_grads();
  for (const Batch& batch : window) {
    Tape tape;
    tape.set_observer(look);
    CrossEntropyResult result;
    {
      TapeScope scope(&tape);
      Context context;
      context.training = true;
      context.rng = &rng;
      result = model.loss(input_of(batch), targets_of(batch), context);
    }
    if (found.empty()) tape.backward(result.loss_sum);
    if (!found.empty()) break;
  }
  model.clear_grads();
  return found.empty() ? "the sum over tokens (no single op)" : found;
}

}  // namespace cbwc
