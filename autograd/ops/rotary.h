// rotary: turns pairs of each head's channels by the token's position (core/kernels/rotary.h).
#pragma once
#include "autograd/tape.h"

namespace cbwc {

struct RotaryOptions {
  int64_t channels = 0;  // of each head that turn, even; 0: all
  int64_t first = 0;     // position of the first token
  double base = 10000;
};

class RotaryOp : public Op {
 public:
  explicit RotaryOp(const RotaryOptions& options) : options(options) {}
  const char* name() const override { return "rotary"; }
  void backward(Gradients& g) override;
  const RotaryOptions options;
};

// x (B, T, H, D) -> the same shape.
Variable rotary(const Variable& x, const RotaryOptions& options = {});

}  // namespace cbwc
