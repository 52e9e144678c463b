// DropPath: drops a whole branch per sample (first axis), in training only.
#pragma once
#include "layers/dropout.h"

namespace cbwc {

class DropPath : public Dropout {
 public:
  using Dropout::Dropout;
  std::string describe() const override;
  Variable forward(const Variable& x, const Context& context) override;
};

}  // namespace cbwc
