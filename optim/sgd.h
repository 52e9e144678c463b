// Stochastic gradient descent with momentum over flat buffers, as PyTorch's: the decay is added to
// the gradient, b = momentum b + g, p -= lr b. Decay goes by role (optim/decay.h).
#pragma once
#include "autograd/parameter.h"
#include "optim/decay.h"
#include "optim/state.h"

namespace cbwc {

struct SgdOptions {
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;
};

class Sgd {
 public:
  Sgd(FlatParameters& parameters, SgdOptions options);  // keeps the reference
  void step(double lr, double grad_scale = 1.0);        // clears the gradients

  const SgdOptions& options() const { return options_; }
  int64_t steps() const { return steps_; }
  Tensor& momentum_buffer() { return b_; }  // flat; undefined without momentum
  NamedTensors momentum_by_name() const;    // empty without momentum
  void load(int64_t steps, const NamedTensors& momentum);

 private:
  FlatParameters& parameters_;
  const SgdOptions options_;
  Tensor b_;
  int64_t steps_ = 0;
};

}  // namespace cbwc
