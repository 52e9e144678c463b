#include "layers/branch.h"

#include "autograd/ops/center.h"
#include "layers/drop_path.h"

namespace cbwc {

bool centres_weights(const BranchOptions& o) {
  return centres_writers(o.norm) && o.placement != DropoutPlacement::centred;
}

bool centres_output(const BranchOptions& o) {
  return centres_writers(o.norm) && o.placement == DropoutPlacement::centred;
}

BranchOutput::BranchOutput(Module* parent, const std::string& name, int64_t in, int64_t out,
                           const Init& init, const BranchOptions& options)
    : options_(options),
      projection_(make_linear(centres_weights(options), parent, name, in, out, true, init)) {
  if (options.placement == DropoutPlacement::path) {
    dropout_ = std::make_unique<DropPath>(parent, "dropout", options.dropout);
  } else {
    dropout_ = std::make_unique<Dropout>(parent, "dropout", options.dropout);
  }
}

Variable BranchOutput::forward(const Variable& x, const Context& context) {
  if (options_.placement == DropoutPlacement::before_projection) {
    return projection_->forward(dropout_->forward(x, context));
  }
  const Variable y = dropout_->forward(projection_->forward(x), context);
  return centres_output(options_) ? center(y, -1) : y;
}

}  // namespace cbwc
