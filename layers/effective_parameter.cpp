#include "layers/effective_parameter.h"

namespace cbwc {

Variable EffectiveParameter::get(const std::vector<ParameterPtr>& parameters,
                                 const std::function<Variable()>& make) {
  const Tape* tape = Tape::current();
  const uint64_t serial = tape == nullptr ? 0 : tape->serial();
  std::vector<uint64_t> versions;
  for (const ParameterPtr& p : parameters) versions.push_back(p->version());
  if (variable_.defined() && serial == tape_serial_ && versions == versions_) return variable_;
  variable_ = {};  // before the new one is made: two copies would count
  variable_ = make();
  versions_ = std::move(versions);
  tape_serial_ = serial;
  return variable_;
}

}  // namespace cbwc
