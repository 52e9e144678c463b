// LowRankLinear (LoRA): base(x) + alpha / rank * up(down(x)). `up` starts at zero, so that a new
// layer equals its base. When `centered`, the base's weight and bias and `up` are centred (CBWC):
// what both write then has zero mean.
#pragma once
#include "layers/linear.h"

namespace cbwc {

struct LowRankConfig {
  int64_t in = 0, out = 0, rank = 0;
  double alpha = 1;
  bool bias = true;
};

class LowRankLinear : public Module {
 public:
  LowRankLinear(Module* parent, const std::string& name, const LowRankConfig& config, bool centered,
                const Init& init);
  std::string describe() const override;
  Variable forward(const Variable& x);
  void freeze_base();  // only down and up are trained from now on
  const Linear& base() const { return *base_; }
  const Linear& down() const { return down_; }
  const Linear& up() const { return *up_; }

 private:
  const LowRankConfig config_;
  std::unique_ptr<Linear> base_;
  Linear down_;
  std::unique_ptr<Linear> up_;
};

}  // namespace cbwc
