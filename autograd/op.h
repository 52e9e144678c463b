// Op: one recorded operation, with its analytic backward. Attributes and saved tensors are typed
// members, so that an analysis can read them; release() drops the tensors and keeps the attributes.
#pragma once
#include <vector>

#include "core/tensor.h"

namespace cbwc {

class Parameter;

// What Op::backward sees: gradients of its outputs, and where those of its inputs go.
class Gradients {
 public:
  // Gradient of output i: contiguous, of the output's shape and dtype. Never write into it.
  // Undefined when nothing downstream used that output (only possible for ops with several
  // outputs).
  const Tensor& out(int i = 0) const { return outputs_[i]; }
  // Moves it out; the caller may write into it if unique() then holds.
  Tensor take_out(int i = 0) { return std::move(outputs_[i]); }
  // Whether input i needs a gradient. giving one that is not wanted is ignored.
  bool wants(int input) const { return slots_[input].wanted; }
  // Hands a gradient over: the first is moved, later ones are added.
  void give(int input, Tensor gradient);
  // A contiguous buffer of the input's shape to write (accumulate = false) or to add to (true).
  struct Target {
    Tensor buffer;
    bool accumulate;
  };
  Target target(int input);
  // Moves out what other ops have sent to input i so far (undefined: nothing yet); give() the sum.
  Tensor take_partial(int input);
  // The gradient of input i, a parameter, was added to the parameter itself.
  void mark_given(int input) { slots_[input].given = true; }
  // Another backward over the same saved tensors may follow: they must not be written into.
  bool keeps_data() const { return keeps_data_; }

 private:
  friend class Tape;
  struct Slot {
    bool wanted = false, given = false;
    Tensor* activation = nullptr;    // the tape's slot, or
    Parameter* parameter = nullptr;  // the parameter whose buffer it is
    const Shape* shape = nullptr;
    DType dtype = DType::f32;
    Device device = Device::cpu;
  };
  std::vector<Tensor> outputs_;
  std::vector<Slot> slots_;
  bool keeps_data_ = false;
};

class Op {
 public:
  virtual ~Op() = default;
  virtual const char* name() const = 0;  // "layer_norm": the stem
  virtual void backward(Gradients& g) = 0;
  virtual void release() {}  // drop saved tensors; backward is an error afterwards
};

}  // namespace cbwc
