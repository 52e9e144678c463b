#include "autograd/checkpoint.h"

#include <algorithm>

namespace cbwc {
namespace {

// Leaves of an inner tape, one per distinct input, and the body's arguments made of them.
struct Arguments {
  std::vector<Variable> leaves, all;
};

Arguments make_arguments(Tape& inner, const std::vector<Tensor>& inputs,
                         const std::vector<bool>& wants, const std::vector<int>& slots) {
  Arguments out;
  for (size_t i = 0; i < inputs.size(); ++i) out.leaves.push_back(inner.leaf(inputs[i], wants[i]));
  for (const int slot : slots)
    out.all.push_back(slot < 0 ? Variable() : out.leaves[static_cast<size_t>(slot)]);
  return out;
}

Variable run_on(Tape& inner, const Arguments& arguments, const CheckpointBody& body,
                const CheckpointPass& pass) {
  const TapeScope scope(&inner);
  const Variable y = body(arguments.all, pass);
  CBWC_CHECK(y.tape() == nullptr || y.tape() == &inner,
             "checkpoint: the body returned a value of another tape");
  return y;
}

}  // namespace

CheckpointOp::CheckpointOp(const Tape& tape, std::vector<Tensor> inputs, std::vector<int> slots,
                           std::vector<ParameterPtr> parameters, CheckpointBody body,
                           const Rng* start)
    : tape_(tape),
      scope_(tape.scope()),
      inputs_(std::move(inputs)),
      slots_(std::move(slots)),
      parameters_(std::move(parameters)),
      body_(std::move(body)) {
  if (start != nullptr) start_.push_back(*start);
}

void CheckpointOp::release() {
  inputs_.clear();
  body_ = nullptr;
}

int CheckpointOp::parameter_place(const Parameter* parameter) const {
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].get() == parameter) return static_cast<int>(inputs_.size() + i);
  throw Error("checkpoint: the body used parameter " + parameter->name() +
              " the second time only: it must compute the same again");
}

void CheckpointOp::backward(Gradients& g) {
  CBWC_CHECK(body_ != nullptr, "checkpoint: backward after its data was freed");
  Tape inner(tape_, scope_, true);
  std::vector<bool> wants;
  for (size_t i = 0; i < inputs_.size(); ++i) wants.push_back(g.wants(static_cast<int>(i)));
  const Arguments arguments = make_arguments(inner, inputs_, wants, slots_);
  std::vector<Rng> rng = start_;
  const Variable y =
      run_on(inner, arguments, body_, CheckpointPass{rng.empty() ? nullptr : &rng[0], true});
  CBWC_CHECK(y.shape() == g.out().shape(), "checkpoint: the body returned ", to_string(y.shape()),
             " the second time, ", to_string(g.out().shape()), " the first");
  if (y.tape() == nullptr) return;
  // The inner tape goes on with the sums where the outer one stands: the same order of additions as
  // without a checkpoint.
  std::vector<Tape::Known> known;
  std::vector<bool> had;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Tensor partial = wants[i] ? g.take_partial(static_cast<int>(i)) : Tensor();
    had.push_back(partial.defined());
    if (partial.defined()) known.push_back({arguments.leaves[i], std::move(partial)});
  }
  const bool is_input = inner.values()[static_cast<size_t>(y.id())].producer < 0;
  known.push_back({y, g.take_out()});
  BackwardOptions options;
  options.allow_unused = true;  // the outer tape checks that, over all its uses
  const std::vector<bool> reached = inner.backward_from(std::move(known), options);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Variable& leaf = arguments.leaves[i];
    const bool returned = is_input && leaf.id() == y.id();
    if (wants[i] && (had[i] || returned || reached[static_cast<size_t>(leaf.id())]))
      g.give(static_cast<int>(i), inner.grad(leaf));
  }
  for (size_t id = 0; id < inner.values().size(); ++id) {
    const ParameterPtr& p = inner.values()[id].parameter;
    if (p != nullptr && reached[id]) g.mark_given(parameter_place(p.get()));
  }
}

Variable checkpointed(const std::vector<Variable>& inputs, CheckpointBody body, Rng* rng) {
  Tape* tape = Tape::current();
  if (tape == nullptr) return body(inputs, CheckpointPass{rng, false});
  std::vector<const Variable*> distinct;
  std::vector<Tensor> tensors;
  std::vector<bool> wants;
  std::vector<int> slots;
  for (const Variable& x : inputs) {
    const auto same = std::find_if(distinct.begin(), distinct.end(), [&](const Variable* d) {
      return x.tape() != nullptr && d->tape() == x.tape() && d->id() == x.id();
    });
    slots.push_back(x.defined() ? static_cast<int>(same - distinct.begin()) : -1);
    if (!x.defined() || same != distinct.end()) continue;
    CBWC_CHECK(x.tape() == nullptr || x.tape() == tape,
               "autograd: a value of another tape was used");
    distinct.push_back(&x);
    tensors.push_back(x.value());
    wants.push_back(x.tape() != nullptr && tape->values()[static_cast<size_t>(x.id())].needs_grad);
  }
  Tape inner(*tape, tape->scope(), false);
  const std::vector<Rng> start(rng == nullptr ? 0 : 1, rng == nullptr ? Rng(0, "") : *rng);
  Tensor output;
  {
    const Arguments arguments = make_arguments(inner, tensors, wants, slots);
    output = run_on(inner, arguments, body, CheckpointPass{rng, false}).value();
  }
  std::vector<ParameterPtr> parameters;
  std::vector<Variable> uses;
  for (const TapeValue& v : inner.values())
    if (v.parameter != nullptr) parameters.push_back(v.parameter);
  for (const ParameterPtr& p : parameters) uses.push_back(tape->use(p));
  for (const Variable& use : uses) distinct.push_back(&use);
  auto op = std::make_unique<CheckpointOp>(*tape, std::move(tensors), std::move(slots),
                                           std::move(parameters), std::move(body),
                                           start.empty() ? nullptr : &start[0]);
  return tape->record(std::move(op), distinct, std::move(output));
}

}  // namespace cbwc
