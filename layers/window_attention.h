// Swin's attention within windows of a map, shifted or not, with a bias per relative position.
#pragma once
#include "layers/branch.h"

namespace cbwc {

// Which token of a map (H, W) stands where. The map is padded at the bottom and on the right to a
// multiple of the window, THEN rolled by -shift (cases.md P52), then cut into windows. Tokens of a
// shifted map see each other only where they were neighbours before the roll: in one group. As in
// the original, padding takes part as keys: it is zero before the qkv Linear.
struct WindowPlan {
  int64_t window = 0, shift = 0, windows = 0;  // what is used, and how many windows in a map
  bool identity = false;                       // one window and no padding: nothing moves
  Tensor into;      // (windows * window^2): the map's place for each window's token; -1: padding
  Tensor back;      // (H * W): the way back
  Tensor groups;    // (windows, window^2); undefined without shift
  Tensor bias_ids;  // (window^4): for (query, key) the row of the table
};

// A map that is not larger than the window, in height or width, is attended to in windows of its
// smaller side without shift (cases.md P53); the table stays that of the configured window,
// (2 window - 1)^2 rows, and is indexed for the smaller one.
WindowPlan plan_windows(int64_t H, int64_t W, int64_t window, int64_t shift);

struct WindowOptions {
  int64_t dim = 0, heads = 1, window = 7, shift = 0;
  bool qkv_bias = true;
  double dropout = 0;  // of the attention probabilities
};

class WindowAttention : public Module {
 public:
  WindowAttention(Module* parent, const std::string& name, const WindowOptions& options,
                  const Init& init, const BranchOptions& branch);
  std::string describe() const override;
  Variable forward(const Variable& x, const Context& context);  // (B, H, W, C) -> the same
  const Linear& projection() const { return out_.projection(); }
  const ParameterPtr& bias_table() const { return bias_table_; }  // ((2 window - 1)^2, heads)

 private:
  Variable attend(const Variable& tokens, const WindowPlan& plan, const Context& context);
  const WindowPlan& plan_for(int64_t H, int64_t W);
  const WindowOptions options_;
  Linear qkv_;
  ParameterPtr bias_table_;
  BranchOutput out_;
  WindowPlan plan_;  // of the last map
  int64_t plan_h_ = 0, plan_w_ = 0;
};

}  // namespace cbwc
