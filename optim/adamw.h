// AdamW over flat buffers (core/kernels/adamw.h has the formula). Decay goes by role
// (optim/decay.h); parameters that are not trainable are left alone.
#pragma once
#include "autograd/parameter.h"
#include "optim/decay.h"
#include "optim/state.h"

namespace cbwc {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
};

class AdamW {
 public:
  AdamW(FlatParameters& parameters, AdamWOptions options);  // keeps the reference
  // One update with grad_scale * gradients (ClipResult::scale); clears the gradients.
  void step(double lr, double grad_scale = 1.0);

  const AdamWOptions& options() const { return options_; }
  int64_t steps() const { return steps_; }  // updates so far; the bias correction goes by it
  void set_steps(int64_t steps);
  Tensor& m() { return m_; }  // flat, in the order of the parameters
  Tensor& v() { return v_; }
  NamedTensors m_by_name() const { return split_state(parameters_, m_); }
  NamedTensors v_by_name() const { return split_state(parameters_, v_); }
  // Matched by name; Error on any mismatch. m and v are both checked before either is written.
  void load(int64_t steps, const NamedTensors& m, const NamedTensors& v);

 private:
  FlatParameters& parameters_;
  const AdamWOptions options_;
  Tensor m_, v_;
  int64_t steps_ = 0;
};

}  // namespace cbwc
