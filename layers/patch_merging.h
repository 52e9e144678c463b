// Swin's patch merging: the channels of 2 x 2 neighbours side by side, in the order (0,0), (1,0),
// (0,1), (1,1) of (row, column), a norm over the 4 dim and a Linear to 2 dim without bias. Odd
// sizes are padded with zeros at the bottom and on the right. The norm sees four tokens at once, so
// it is not blind to their means (method.md 4): it never folds, nor do the norms of the stream that
// it reads, unless their means are carried.
#pragma once
#include "layers/branch.h"

namespace cbwc {

class PatchMerging : public Module {
 public:
  PatchMerging(Module* parent, const std::string& name, int64_t dim, Norm norm, double norm_eps,
               bool norm_bias, const Init& init);
  std::string describe() const override;
  bool restore_input() override { return restore_input_ = true; }
  bool can_restore_input() const override { return true; }
  // (B, H, W, dim) -> (B, ceil(H / 2), ceil(W / 2), 2 dim)
  Variable forward(const Variable& x, const Context& context);
  const Linear& reduction() const { return *reduction_; }

 private:
  const int64_t dim_;
  std::unique_ptr<NormLayer> norm_;
  std::unique_ptr<Linear> reduction_;
  bool restore_input_ = false;
};

// The places h * W + w that patch merging reads, four for every new token; -1: padding.
Tensor merging_ids(int64_t H, int64_t W);

}  // namespace cbwc
