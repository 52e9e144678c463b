#include "optim/state.h"

namespace cbwc {

Tensor zero_state(FlatParameters& parameters) { return Tensor::zeros_like(parameters.values()); }

NamedTensors split_state(const FlatParameters& parameters, const Tensor& flat) {
  NamedTensors out;
  for (size_t i = 0; i < parameters.parameters().size(); ++i) {
    const Parameter& p = *parameters.parameters()[i];
    const int64_t begin = parameters.offsets()[i];
    const Tensor part = flat.slice(0, begin, begin + p.value().numel());
    const bool added =
        out.emplace(p.name(), part.to(Device::cpu).clone().reshape(p.value().shape())).second;
    CBWC_CHECK(added, "optimiser state: two parameters are named '", p.name(), "'");
  }
  return out;
}

void load_state(const FlatParameters& parameters, Tensor& flat, const NamedTensors& state,
                const std::string& what) {
  std::map<std::string, const Parameter*> known;
  for (const ParameterPtr& p : parameters.parameters()) known[p->name()] = p.get();
  for (const auto& [name, tensor] : state) {
    CBWC_CHECK(known.count(name), what, ": '", name, "' is no parameter of this model");
    const Tensor& value = known[name]->value();
    CBWC_CHECK(tensor.shape() == value.shape() && tensor.dtype() == value.dtype(), what, ": '",
               name, "' is ", to_string(tensor.shape()), " ", dtype_name(tensor.dtype()),
               ", the model has ", to_string(value.shape()), " ", dtype_name(value.dtype()));
  }
  for (const auto& [name, p] : known) {
    CBWC_CHECK(state.count(name), what, ": nothing for parameter '", name, "'");
  }
  for (size_t i = 0; i < parameters.parameters().size(); ++i) {
    const Tensor& from = state.at(parameters.parameters()[i]->name());
    const int64_t begin = parameters.offsets()[i];
    Tensor part = flat.slice(0, begin, begin + from.numel());
    part.copy_from(from.reshape({from.numel()}).to(flat.device()));
  }
}

}  // namespace cbwc
