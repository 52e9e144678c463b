// Tape: a Wengert list. Ops run eagerly and are recorded, in execution order, on the thread's
// active tape; backward walks the list from its end. Structure (ids, shapes, attributes, module
// scopes) outlives the data, so that an analysis gives the same answer before and after backward.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/op.h"
#include "autograd/parameter.h"

namespace cbwc {

class Tape;
using ValueId = int32_t;
using NodeId = int32_t;

// A tensor and its place on a tape (tape null: not recorded). Cheap to copy; holds the tensor.
class Variable {
 public:
  Variable() = default;
  Variable(Tensor value) : value_(std::move(value)) {}  // NOLINT: a Tensor is a constant
  const Tensor& value() const { return value_; }
  bool defined() const { return value_.defined(); }
  const Shape& shape() const { return value_.shape(); }
  int rank() const { return value_.rank(); }
  int64_t size(int axis) const { return value_.size(axis); }
  DType dtype() const { return value_.dtype(); }
  Tape* tape() const { return tape_; }
  ValueId id() const { return id_; }

 private:
  friend class Tape;
  Tensor value_;
  Tape* tape_ = nullptr;
  ValueId id_ = -1;
};

struct TapeValue {
  Shape shape;
  DType dtype;
  Device device;
  NodeId producer = -1;    // -1: a leaf
  ParameterPtr parameter;  // set for a parameter's leaf
  uint64_t parameter_version = 0;
  bool needs_grad = false;
};

struct TapeNode {
  std::unique_ptr<Op> op;
  std::vector<ValueId> inputs, outputs;
  std::string scope;  // dotted module names, "blocks.0.attn"
};

struct BackwardOptions {
  double seed = 1.0;          // gradient of the (one-element) loss
  bool allow_unused = false;  // else a trainable parameter on the tape without gradient is an Error
  bool create_graph = false;  // true is refused: second derivatives are not supported
  bool keep_data = false;     // keep saved tensors for another backward
};

// Sees each op right after it ran: forward with its outputs, backward with the gradients handed to
// its inputs so far. For finding a non-finite value and for profiles.
using TapeObserver =
    std::function<void(const TapeNode&, bool backward, const std::vector<Tensor>& tensors)>;

class Tape {
 public:
  Tape();
  // A tape for a part of `outer`'s work, in a scope of it and with its observer. Without data it
  // keeps the structure only and cannot be used for backward (autograd/checkpoint.h).
  Tape(const Tape& outer, std::string scope, bool keeps_data);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  static Tape* current();  // the thread's active tape, or null: nothing is recorded

  Variable leaf(Tensor value, bool needs_grad);  // an input; read its gradient with grad()
  Variable use(const ParameterPtr& parameter);   // one leaf per parameter and tape
  Variable record(std::unique_ptr<Op> op, const std::vector<const Variable*>& inputs,
                  Tensor output);
  std::vector<Variable> record(std::unique_ptr<Op> op, const std::vector<const Variable*>& inputs,
                               std::vector<Tensor> outputs);

  // Adds into the parameters' gradients. A second call on freed data is an Error; so is a parameter
  // changed since it was recorded (named).
  void backward(const Variable& loss, const BackwardOptions& options = {});
  // The same from gradients known so far, of outputs and of leaves alike; each later contribution
  // is added to them. Returns, for each value, whether any op sent it a gradient.
  struct Known {
    Variable value;
    Tensor gradient;
  };
  std::vector<bool> backward_from(std::vector<Known> known, const BackwardOptions& options = {});
  Tensor grad(const Variable& leaf) const;  // of a leaf made with needs_grad, after backward

  void set_observer(TapeObserver observer) { observer_ = std::move(observer); }

  const std::vector<TapeNode>& nodes() const { return nodes_; }
  const std::vector<TapeValue>& values() const { return values_; }
  const std::string& scope() const { return scope_; }  // where ops are recorded now
  uint64_t serial() const { return serial_; }          // unique per tape in this process
  static int64_t live_nodes();                         // over all tapes (cases.md P41)

 private:
  friend class ScopeGuard;
  void check_backward(const BackwardOptions& options) const;
  std::vector<bool> walk_back(const BackwardOptions& options);
  ValueId adopt(const Variable& v);  // the id of v here; a constant leaf if it came from elsewhere
  std::vector<TapeNode> nodes_;
  std::vector<TapeValue> values_;
  std::vector<Tensor> gradients_;  // of leaves, after backward
  std::unordered_map<const Parameter*, ValueId> uses_;
  void observe_backward(const TapeNode& node) const;
  TapeObserver observer_;
  std::string scope_;
  uint64_t serial_;
  bool keeps_data_ = true, freed_ = false;
};

// Makes a tape the thread's active one for a scope; nullptr switches recording off.
class TapeScope {
 public:
  explicit TapeScope(Tape* tape);
  ~TapeScope();

 private:
  Tape* previous_;
};

// Names the module whose ops are being recorded.
class ScopeGuard {
 public:
  explicit ScopeGuard(const std::string& name);
  ~ScopeGuard();

 private:
  Tape* tape_;
  size_t length_ = 0;
};

// For ops: record on the current tape if there is one, else return the bare value.
Variable record(std::unique_ptr<Op> op, const std::vector<const Variable*>& inputs, Tensor output);
Variable use(const ParameterPtr& parameter);  // likewise

}  // namespace cbwc
