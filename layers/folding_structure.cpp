#include "layers/folding.h"
#include "layers/folding_numbers.h"
#include "layers/layer_norm.h"
#include "layers/rms_norm.h"
#include "layers/tied_linear.h"

namespace cbwc {
namespace {

class Structure {
 public:
  Structure(Module& model, const FoldPlan& plan) : model_(model), plan_(plan) {}

  void apply() {
    for (const std::string& name : plan_.norms) become_rms_norm(name);
    for (const Tie& tie : plan_.ties) settle(tie);
    for (const CentredParameter& c : plan_.centre)
      if (c.carries_mean) add_channel(c);
    for (const std::string& name : plan_.auxiliary) {
      Module* module = find(name);
      check(module->can_centre_output(), *module, "its output cannot be centred");
      module->centre_output();
    }
    for (const std::string& name : plan_.carried.projected) {
      Module* module = find(name);
      check(module->can_split_output(), *module, "its mean cannot be carried");
      module->split_output();
    }
    for (const std::string& name : plan_.carried.readers) {
      Module* module = find(name);
      check(module->can_restore_input(), *module, "no carried mean can be added before it");
      module->restore_input();
    }
  }

 private:
  static void check(bool fits, const Module& module, const char* what) {
    CBWC_CHECK(fits, "the folded model's '", module.path(), "' is here a ", module.describe(), ": ",
               what);
  }

  Module* find(const std::string& name) {
    Module* module = model_.find(name);
    CBWC_CHECK(module != nullptr, "the folded model has a module '", name, "', this one has not");
    return module;
  }

  void become_rms_norm(const std::string& name) {
    Module* module = find(name);
    if (auto* norm = dynamic_cast<LayerNorm*>(module))
      norm->become_rms_norm();
    else
      check(dynamic_cast<RMSNorm*>(module) != nullptr, *module, "it is not a norm");
  }

  // A config can also say that the head is untied, or corrected: then it was built so.
  void settle(const Tie& tie) {
    auto* head = dynamic_cast<TiedLinear*>(find(tie.head));
    if (head == nullptr && plan_.tied == HeadTie::untie) return;
    CBWC_CHECK(head != nullptr, "the folded model's head '", tie.head, "' is tied, here it is not");
    if (plan_.tied == HeadTie::runtime || head->state() != TiedLinear::State::tied) return;
    const Tensor& table = model_.parameter(tie.parameter)->value();
    if (plan_.tied == HeadTie::rank_one)
      head->correct_rank_one(Tensor::zeros({table.size(0)}, table.dtype()));
    else
      head->untie(Tensor::zeros(table.shape(), table.dtype()));
  }

  void add_channel(const CentredParameter& c) {
    const ParameterPtr parameter = model_.parameter(c.parameter);
    Shape shape = parameter->value().shape();
    CBWC_CHECK(c.lane.axis >= 0 && c.lane.axis < static_cast<int>(shape.size()),
               "the folded model's '", c.parameter, "' has an axis ", c.lane.axis,
               ", here its shape is ", to_string(shape));
    shape[static_cast<size_t>(c.lane.axis)] = 1;
    append_along({parameter, c.lane, nullptr}, Tensor::zeros(shape, parameter->value().dtype()));
  }

  Module& model_;
  const FoldPlan& plan_;
};

}  // namespace

void apply_structure(Module& model, const FoldPlan& plan) { Structure(model, plan).apply(); }

}  // namespace cbwc
