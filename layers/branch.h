// The end of a residual branch: projection and dropout in the order that Note [Dropout placement]
// asks for, centred as Note [Arms] asks for, then DropPath, which keeps a zero mean.
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
  double drop_path = 0;  // stochastic depth: the branch of a whole sample
};

// Whether a writer is centred through its weights, or (placement centred) by P after its dropout.
bool centres_weights(const BranchOptions& options);
bool centres_output(const BranchOptions& options);

// The dropout of an embedding sum: per token or element-wise, as the placement asks for.
std::unique_ptr<Dropout> make_sum_dropout(Module* parent, const std::string& name,
                                          const BranchOptions& options);

// For cbwc_projected: centres the stored weight and bias over the outputs, in place.
void project_writer(const Linear& writer);
void project_rows(const ParameterPtr& table);  // each row of an embedding's table

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
  std::unique_ptr<Dropout> dropout_, drop_path_;  // the second is null without stochastic depth
};

}  // namespace cbwc
