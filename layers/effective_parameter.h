// A tensor made from parameters in the forward pass (a scaled, a partly centred weight): made once
// per tape and version, however often a layer is called. Without a tape once per version.
#pragma once
#include <functional>
#include <vector>

#include "autograd/tape.h"

namespace cbwc {

class EffectiveParameter {
 public:
  // What `make` returns, a function of the values of `parameters` alone.
  Variable get(const std::vector<ParameterPtr>& parameters, const std::function<Variable()>& make);

 private:
  Variable variable_;
  std::vector<uint64_t> versions_;
  uint64_t tape_serial_ = 0;  // 0: made without a tape
};

}  // namespace cbwc
