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

std::unique_ptr<Dropout> make_sum_dropout(Module* parent, const std::string& name,
                                          const BranchOptions& o) {
  const bool per_token =
      o.placement == DropoutPlacement::before_projection || o.placement == DropoutPlacement::path;
  if (per_token) return std::make_unique<TokenDropout>(parent, name, o.dropout);
  return std::make_unique<Dropout>(parent, name, o.dropout);
}

void project_writer(const Linear& writer) {
  for (const ParameterPtr& p : {writer.weight(), writer.bias()}) {
    if (p == nullptr) continue;
    const Tensor centred = center(p->value(), 0);
    p->mutate().copy_from(centred);
  }
}

void project_rows(const ParameterPtr& table) {
  const Tensor centred = center(table->value(), -1);
  table->mutate().copy_from(centred);
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
  if (options.drop_path > 0)
    drop_path_ = std::make_unique<DropPath>(parent, "drop_path", options.drop_path);
}

Variable BranchOutput::forward(const Variable& x, const Context& context) {
  Variable y;
  if (options_.placement == DropoutPlacement::before_projection) {
    y = projection_->forward(dropout_->forward(x, context));
  } else {
    y = dropout_->forward(projection_->forward(x), context);
    if (centres_output(options_)) y = center(y, -1);
  }
  return drop_path_ == nullptr ? y : drop_path_->forward(y, context);
}

}  // namespace cbwc
