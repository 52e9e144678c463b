// MLP: Linear to `hidden` channels, activation, projection back onto the residual stream.
#pragma once
#include "autograd/ops/activation.h"
#include "layers/branch.h"

namespace cbwc {

// ratio x dim, rounded down as timm and transformers do, where rounding leaves a doubt: a ratio
// that was made by a division gives the width that was divided.
int64_t mlp_width(double ratio, int64_t dim);

class Mlp : public Module {
 public:
  Mlp(Module* parent, const std::string& name, int64_t dim, int64_t hidden, Activation activation,
      const Init& init, const Init& output_init, const BranchOptions& branch);
  std::string describe() const override;
  Variable forward(const Variable& x, const Context& context);
  const Linear& projection() const { return down_.projection(); }

 private:
  const int64_t dim_, hidden_;
  const Activation activation_;
  Linear up_;
  BranchOutput down_;
};

}  // namespace cbwc
