// Element-wise dropout, active in training only; p = 0 records nothing. Plus the experiment factor
// that says where dropout sits between a writer of the residual stream and the norm.
#pragma once
#include "layers/context.h"
#include "layers/module.h"

namespace cbwc {

// Note [Dropout placement] (method.md 7). Branches / embedding sum / exact with CBWC + RMSNorm:
//   element            after the projection / element-wise / no
//   before_projection  before the projection / one draw per token / yes
//   path               DropPath / one draw per token / yes
//   centred            plain projection, dropout, P / plain rows, dropout, P / yes
// The other arms use the same placement, without P.
enum class DropoutPlacement { element, before_projection, path, centred };
DropoutPlacement parse_dropout_placement(const std::string& name);
const char* dropout_placement_name(DropoutPlacement placement);

class Dropout : public Module {
 public:
  Dropout(Module* parent, const std::string& name, double p);
  std::string describe() const override;
  virtual Variable forward(const Variable& x, const Context& context);
  double p() const { return p_; }

 protected:
  // The stream to draw from, or null when dropout does nothing here.
  Rng* active(const Context& context) const;

 private:
  const double p_;
};

// One draw per row of the last axis: keeps a zero mean, unlike element-wise dropout.
class TokenDropout : public Dropout {
 public:
  using Dropout::Dropout;
  std::string describe() const override;
  Variable forward(const Variable& x, const Context& context) override;
};

}  // namespace cbwc
