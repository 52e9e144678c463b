// Activation checkpointing: a part of the forward pass keeps its inputs alone, and runs a second
// time, in the backward, to make the data that its ops need there.
#pragma once
#include <functional>
#include <vector>

#include "autograd/tape.h"
#include "core/rng.h"

namespace cbwc {

// What the body is told. It draws from this stream only: the caller's at first, then a copy that
// starts where the first pass started (cases.md P54). Side effects (statistics) belong to the first
// pass.
struct CheckpointPass {
  Rng* rng = nullptr;  // null when none was given
  bool again = false;
};

// A function of its inputs, of parameters and of the stream. Values of an outer tape come in as
// inputs: using another one is an Error. What it captures must live until the backward.
using CheckpointBody =
    std::function<Variable(const std::vector<Variable>& inputs, const CheckpointPass& pass)>;

// Records one node named "checkpoint"; without a tape just calls the body. Loss, gradients and the
// stream have the same bits as without checkpointing, because every sum is taken in the same order.
// Not so for a parameter's own leaf among the inputs, whose gradients inside are summed first;
// nor for a weight that a layer makes from a parameter once per tape (a centred or scaled
// one) is made once per body; if several bodies share the layer, their gradients are mapped to the
// parameter one by one instead of as a sum, which rounds differently.
Variable checkpointed(const std::vector<Variable>& inputs, CheckpointBody body, Rng* rng);

class CheckpointOp : public Op {
 public:
  // inputs: the tensors, each once; slots[i]: which of them argument i of the body is, -1: an
  // undefined one. parameters: those that the body uses, the node's inputs after `inputs`.
  CheckpointOp(const Tape& tape, std::vector<Tensor> inputs, std::vector<int> slots,
               std::vector<ParameterPtr> parameters, CheckpointBody body, const Rng* start);
  const char* name() const override { return "checkpoint"; }
  void backward(Gradients& g) override;
  void release() override;

 private:
  int parameter_place(const Parameter* parameter) const;  // among the node's inputs
  const Tape& tape_;                                      // owns this op
  const std::string scope_;
  std::vector<Tensor> inputs_;
  const std::vector<int> slots_;
  const std::vector<ParameterPtr> parameters_;
  CheckpointBody body_;
  std::vector<Rng> start_;  // one, or none
};

}  // namespace cbwc
