#include "autograd/tape.h"

#include <atomic>

#include "core/kernels/elementwise.h"

namespace cbwc {
namespace {

thread_local Tape* active = nullptr;
std::atomic<uint64_t> next_serial{1};
std::atomic<int64_t> nodes_alive{0};

void add_in_place(Tensor& y, const Tensor& x) {
  dispatch_float(y.dtype(), "autograd", [&](auto zero) {
    using T = decltype(zero);
    add_into(y.device(), y.data<T>(), static_cast<const T*>(x.data<T>()), y.numel());
  });
}

}  // namespace

void Gradients::give(int input, Tensor gradient) {
  Slot& slot = slots_[input];
  if (!slot.wanted) return;
  slot.given = true;
  CBWC_CHECK(gradient.shape() == *slot.shape && gradient.dtype() == slot.dtype,
             "autograd: a gradient of ", dtype_name(gradient.dtype()), " ",
             to_string(gradient.shape()), " for a value of ", dtype_name(slot.dtype), " ",
             to_string(*slot.shape));
  if (slot.parameter != nullptr) {
    Tensor& buffer = slot.parameter->grad_buffer();
    if (slot.parameter->has_grad()) {
      add_in_place(buffer, gradient.contiguous());
    } else {
      buffer.copy_from(gradient);
      slot.parameter->mark_grad();
    }
  } else if (!slot.activation->defined()) {
    *slot.activation = gradient.contiguous();
  } else {
    // Only a buffer that nobody else holds may be written (cases.md, rule 5).
    if (!slot.activation->unique()) *slot.activation = slot.activation->clone();
    add_in_place(*slot.activation, gradient.contiguous());
  }
}

Gradients::Target Gradients::target(int input) {
  Slot& slot = slots_[input];
  CBWC_CHECK(slot.wanted, "autograd: the gradient of input ", input, " is not wanted");
  slot.given = true;
  if (slot.parameter != nullptr) {
    const bool had = slot.parameter->has_grad();
    slot.parameter->mark_grad();
    return {slot.parameter->grad_buffer(), had};
  }
  const bool had = slot.activation->defined();
  if (!had) {
    *slot.activation = Tensor::empty(*slot.shape, slot.dtype, slot.device);
  } else if (!slot.activation->unique()) {
    *slot.activation = slot.activation->clone();
  }
  return {*slot.activation, had};
}

Tensor Gradients::take_partial(int input) {
  const Slot& slot = slots_[input];
  return slot.activation == nullptr ? Tensor() : std::move(*slot.activation);
}

Tape::Tape() : serial_(next_serial++) {}
Tape::Tape(const Tape& outer, std::string scope, bool keeps_data)
    : observer_(outer.observer_),
      scope_(std::move(scope)),
      serial_(next_serial++),
      keeps_data_(keeps_data) {}
Tape::~Tape() { nodes_alive -= static_cast<int64_t>(nodes_.size()); }

Tape* Tape::current() { return active; }
int64_t Tape::live_nodes() { return nodes_alive; }

Variable Tape::leaf(Tensor value, bool needs_grad) {
  CBWC_CHECK(!needs_grad || is_float(value.dtype()), "autograd: a ", dtype_name(value.dtype()),
             " leaf cannot have a gradient");
  TapeValue info{value.shape(), value.dtype(), value.device(), -1, nullptr, 0, needs_grad};
  values_.push_back(std::move(info));
  Variable v(std::move(value));
  v.tape_ = this;
  v.id_ = static_cast<ValueId>(values_.size()) - 1;
  return v;
}

Variable Tape::use(const ParameterPtr& parameter) {
  Variable v(parameter->value());
  v.tape_ = this;
  auto [found, fresh] = uses_.try_emplace(parameter.get(), static_cast<ValueId>(values_.size()));
  v.id_ = found->second;
  if (fresh) {
    values_.push_back({v.shape(), v.dtype(), parameter->value().device(), -1, parameter,
                       parameter->version(), parameter->trainable()});
  } else {
    CBWC_CHECK(values_[v.id_].parameter_version == parameter->version(), "autograd: parameter ",
               parameter->name(), " was changed while a tape that uses it was being recorded");
  }
  return v;
}

ValueId Tape::adopt(const Variable& v) {
  if (v.tape() == this) return v.id();
  CBWC_CHECK(v.tape() == nullptr, "autograd: a value of another tape was used");
  return leaf(v.value(), false).id();
}

Variable Tape::record(std::unique_ptr<Op> op, const std::vector<const Variable*>& inputs,
                      Tensor output) {
  std::vector<Tensor> outputs;
  outputs.push_back(std::move(output));
  return std::move(record(std::move(op), inputs, std::move(outputs))[0]);
}

std::vector<Variable> Tape::record(std::unique_ptr<Op> op,
                                   const std::vector<const Variable*>& inputs,
                                   std::vector<Tensor> outputs) {
  CBWC_CHECK(!freed_, "autograd: this tape has been used for backward: record on a new one");
  TapeNode node;
  bool needs_grad = false;
  // An undefined input (a missing bias) keeps its place with the id -1.
  for (const Variable* v : inputs) {
    node.inputs.push_back(v->defined() ? adopt(*v) : -1);
    if (node.inputs.back() >= 0) needs_grad |= values_[node.inputs.back()].needs_grad;
  }
  if (!needs_grad || !keeps_data_) op->release();
  node.scope = scope_;
  std::vector<Variable> result;
  for (Tensor& output : outputs) {
    const bool differentiable = needs_grad && is_float(output.dtype());
    Variable v = leaf(std::move(output), differentiable);
    values_[v.id()].producer = static_cast<NodeId>(nodes_.size());
    node.outputs.push_back(v.id());
    result.push_back(std::move(v));
  }
  node.op = std::move(op);
  nodes_.push_back(std::move(node));
  ++nodes_alive;
  if (observer_) {
    std::vector<Tensor> seen;
    for (const Variable& v : result) seen.push_back(v.value());
    observer_(nodes_.back(), false, seen);
  }
  return result;
}

void Tape::observe_backward(const TapeNode& node) const {
  std::vector<Tensor> seen;
  for (ValueId in : node.inputs) {
    if (in < 0) continue;
    const ParameterPtr& p = values_[in].parameter;
    const Tensor gradient = !p ? gradients_[in] : p->has_grad() ? p->grad() : Tensor();
    if (gradient.defined()) seen.push_back(gradient);
  }
  observer_(node, true, seen);
}

void Tape::check_backward(const BackwardOptions& options) const {
  CBWC_CHECK(!options.create_graph,
             "autograd: second derivatives are not supported (create_graph)");
  CBWC_CHECK(!freed_, "autograd: backward was already run and has freed this tape's data");
  CBWC_CHECK(keeps_data_, "autograd: this tape keeps no data: backward cannot be run on it");
  for (const TapeValue& v : values_)
    CBWC_CHECK(!v.parameter || v.parameter->version() == v.parameter_version,
               "autograd: parameter ", v.parameter->name(),
               " was changed in place between forward and backward");
}

void Tape::backward(const Variable& loss, const BackwardOptions& options) {
  check_backward(options);
  CBWC_CHECK(loss.tape() == this, "autograd: backward from a value that is not on this tape");
  CBWC_CHECK(loss.value().numel() == 1, "autograd: backward starts from one element, not from ",
             to_string(loss.shape()));
  gradients_.assign(values_.size(), Tensor());
  if (values_[loss.id()].needs_grad) {
    gradients_[loss.id()] =
        Tensor::full(loss.shape(), options.seed, loss.dtype(), loss.value().device());
  }
  walk_back(options);
}

std::vector<bool> Tape::backward_from(std::vector<Known> known, const BackwardOptions& options) {
  check_backward(options);
  gradients_.assign(values_.size(), Tensor());
  for (Known& k : known) {
    CBWC_CHECK(k.value.tape() == this, "autograd: backward from a value that is not on this tape");
    CBWC_CHECK(k.gradient.shape() == k.value.shape() && k.gradient.dtype() == k.value.dtype(),
               "autograd: a gradient of ", to_string(k.gradient.shape()), " for a value of ",
               to_string(k.value.shape()));
    if (!values_[k.value.id()].needs_grad) continue;
    Tensor& slot = gradients_[k.value.id()];
    if (!slot.defined()) {
      slot = std::move(k.gradient);
      continue;
    }
    if (!slot.unique()) slot = slot.clone();
    add_in_place(slot, k.gradient.contiguous());
  }
  known.clear();  // what is held twice would be copied before it is added to
  return walk_back(options);
}

std::vector<bool> Tape::walk_back(const BackwardOptions& options) {
  std::vector<bool> reached(values_.size(), false);
  for (size_t n = nodes_.size(); n-- > 0;) {
    TapeNode& node = nodes_[n];
    Gradients g;
    g.keeps_data_ = options.keep_data;
    bool any = false;
    for (ValueId out : node.outputs) {
      any |= gradients_[out].defined();
      g.outputs_.push_back(std::move(gradients_[out]));
      gradients_[out] = Tensor();
    }
    if (any) {
      for (ValueId in : node.inputs) {
        Gradients::Slot slot;
        if (in >= 0 && values_[in].needs_grad) {
          const TapeValue& v = values_[in];
          slot = {true,
                  false,
                  v.parameter ? nullptr : &gradients_[in],
                  v.parameter.get(),
                  &v.shape,
                  v.dtype,
                  v.device};
        }
        g.slots_.push_back(slot);
      }
      node.op->backward(g);
      for (size_t i = 0; i < g.slots_.size(); ++i)
        if (g.slots_[i].given) reached[node.inputs[i]] = true;
      if (observer_) observe_backward(node);
    }
    if (!options.keep_data) node.op->release();
  }
  freed_ = !options.keep_data;
  for (size_t i = 0; i < values_.size() && !options.allow_unused; ++i)
    CBWC_CHECK(!values_[i].parameter || !values_[i].needs_grad || reached[i],
               "autograd: trainable parameter ", values_[i].parameter->name(),
               " got no gradient: nothing connects it to the loss");
  return reached;
}

Tensor Tape::grad(const Variable& leaf) const {
  CBWC_CHECK(
      leaf.tape() == this && values_[leaf.id()].producer < 0 && values_[leaf.id()].needs_grad,
      "autograd: gradients are kept for leaves made with needs_grad only");
  CBWC_CHECK(static_cast<size_t>(leaf.id()) < gradients_.size(),
             "autograd: grad() before backward()");
  const Tensor& g = gradients_[leaf.id()];
  return g.defined() ? g : Tensor::zeros(leaf.shape(), leaf.dtype(), leaf.value().device());
}

TapeScope::TapeScope(Tape* tape) : previous_(active) { active = tape; }
TapeScope::~TapeScope() { active = previous_; }

ScopeGuard::ScopeGuard(const std::string& name) : tape_(active) {
  if (tape_ == nullptr) return;
  length_ = tape_->scope_.size();
  if (length_ > 0 && !name.empty()) tape_->scope_ += '.';
  tape_->scope_ += name;
}

ScopeGuard::~ScopeGuard() {
  if (tape_ != nullptr) tape_->scope_.resize(length_);
}

Variable record(std::unique_ptr<Op> op, const std::vector<const Variable*>& inputs, Tensor output) {
  if (active == nullptr) return Variable(std::move(output));
  return active->record(std::move(op), inputs, std::move(output));
}

Variable use(const ParameterPtr& parameter) {
  return active == nullptr ? Variable(parameter->value()) : active->use(parameter);
}

}  // namespace cbwc
