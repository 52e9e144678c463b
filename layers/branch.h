// The end of a residual branch: projection and dropout in the order that Note [Dropout placement]
// asks for, centred as Note [Arms] asks for.
#pragma once
#include <memory>

#include "layers/dropout.h"
#include "layers/linear.h"
#include "layers/norm.h"

namespace cbwc {

struct BranchOptions {
  Norm norm = Norm::layernorm;
  DropoutPlacement placement = DropoutPlacement::element;
  double dropout = 0;
};

// Whether a writer is centred through its weights, or (placement centred) by P after its dropout.
bool centres_weights(const BranchOptions& options);
bool centres_output(const BranchOptions& options);

class BranchOutput {
 public:
  // The projection is the parent's child `name`.
  BranchOutput(Module* parent, const std::string& name, int64_t in, int64_t out, const Init& init,
               const BranchOptions& options);
  Variable forward(const Variable& x, const Context& context);
  const Linear& projection() const { return *projection_; }

 private:
  const BranchOptions options_;
  std::unique_ptr<Linear> projection_;
  std::unique_ptr<Dropout> dropout_;
};

}  // namespace cbwc
