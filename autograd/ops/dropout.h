// Dropout, p in [0, 1]: kept values are scaled by 1/(1 - p); p = 0 gives x itself, p = 1 zeros. The
// mask is a function of the stream's position and is computed again in the backward.
#pragma once
#include "autograd/tape.h"
#include "core/rng.h"

namespace cbwc {

enum class DropoutKind { element, path, token };

class DropoutOp : public Op {
 public:
  DropoutOp(DropoutKind kind, double p, int64_t group, uint64_t key, uint64_t first_block)
      : kind_(kind), p_(p), group_(group), key_(key), first_block_(first_block) {}
  const char* name() const override;  // "dropout", "drop_path", "token_dropout"
  void backward(Gradients& g) override;
  DropoutKind kind() const { return kind_; }
  double p() const { return p_; }

 private:
  DropoutKind kind_;
  double p_;
  int64_t group_;
  uint64_t key_, first_block_;
};

Variable dropout(const Variable& x, double p, Rng& rng);    // one draw per element
Variable drop_path(const Variable& x, double p, Rng& rng);  // one draw per index of the first axis
Variable token_dropout(const Variable& x, double p, Rng& rng);  // one draw per row of the last axis

}  // namespace cbwc
