// Optimiser state by parameter name: a flat buffer is split for a checkpoint and put together again
// in whatever order the parameters are declared (cases.md P59).
#pragma once
#include <map>
#include <string>

#include "autograd/parameter.h"

namespace cbwc {

using NamedTensors = std::map<std::string, Tensor>;

// A zero buffer with one element for each of the flat values.
Tensor zero_state(FlatParameters& parameters);
// Host copies, one per parameter, of its shape. Error when two parameters share a name.
NamedTensors split_state(const FlatParameters& parameters, const Tensor& flat);
// Error, naming the parameter, for a missing or unknown name or another shape or dtype; flat is
// then unchanged. `what` names the state in the message.
void load_state(const FlatParameters& parameters, Tensor& flat, const NamedTensors& state,
                const std::string& what);

}  // namespace cbwc
