// CenteredLinear (CBWC): y = x (P W)^T + P b, P the centring over the outputs. Its output has zero
// mean for every x. W and b, the proxies, are the parameters, initialised as Linear's.
#pragma once
#include "layers/linear.h"

namespace cbwc {

// P p along an axis, computed once per version of p. Each tape records its own node, once, so that
// every micro-batch of a step sends its gradient to the proxy. Works alike in and out of training.
class CenteredParameter {
 public:
  Variable get(const ParameterPtr& parameter, int axis);
  int64_t computed() const { return computed_; }  // how often P was applied

 private:
  Tensor value_;
  Variable variable_;
  uint64_t version_ = 0, tape_serial_ = 0;
  int64_t computed_ = 0;
};

class CenteredLinear : public Linear {
 public:
  using Linear::Linear;
  std::string describe() const override;
  const CenteredParameter& centered_weight() const { return centered_weight_; }

 protected:
  Variable effective_weight() override;
  Variable effective_bias() override;

 private:
  CenteredParameter centered_weight_, centered_bias_;
};

}  // namespace cbwc
