#include "layers/tied_linear.h"

#include <fmt/format.h>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reduce.h"
#include "layers/choices.h"

namespace cbwc {
namespace {

constexpr Choices<FoldedTie, 3> kFoldedTies = {{{"none", FoldedTie::none},
                                                {"rank_one", FoldedTie::rank_one},
                                                {"runtime", FoldedTie::runtime}}};

}  // namespace

FoldedTie parse_folded_tie(const std::string& name) {
  return parse_choice(kFoldedTies, name, "folded_tie");
}

TiedLinear::TiedLinear(Module* parent, const std::string& name, ParameterPtr table)
    : Module(parent, name), weight_(std::move(table)) {
  CBWC_CHECK(weight_ != nullptr && weight_->value().rank() == 2, path(),
             ": a tied layer needs a table (rows, channels)");
}

std::string TiedLinear::describe() const {
  const char* kind = state_ == State::untied     ? "untied"
                     : state_ == State::rank_one ? "tied, rank-one corrected"
                                                 : "tied";
  return fmt::format("Linear {} -> {}, {}", weight_->value().size(1), weight_->value().size(0),
                     kind);
}

Variable TiedLinear::forward(const Variable& h) {
  const ScopeGuard scope(name());
  const Variable y = linear(h, use(weight_), Variable());
  if (state_ != State::rank_one) return y;
  const Variable total = sum(h, {-1}, true), means = use(row_means_);
  return add(y, mul(total, means));
}

void TiedLinear::check(const Tensor& value, const Shape& shape) const {
  CBWC_CHECK(state_ == State::tied, path(), ": the tie was already settled");
  CBWC_CHECK(value.shape() == shape, path(), ": expected the shape ", to_string(shape), ", got ",
             to_string(value.shape()));
}

void TiedLinear::correct_rank_one(const Tensor& row_means) {
  const int64_t rows = weight_->value().size(0);
  check(row_means, {rows});
  row_means_ =
      add_constant_parameter("row_means", {rows}, Role::bias, 0.0, weight_->value().dtype());
  row_means_->mutate().copy_from(row_means);
  row_means_->set_trainable(false);
  state_ = State::rank_one;
}

void TiedLinear::untie(const Tensor& weight) {
  check(weight, weight_->value().shape());
  weight_ =
      add_constant_parameter("weight", weight.shape(), Role::weight, 0.0, weight_->value().dtype());
  weight_->mutate().copy_from(weight);
  state_ = State::untied;
}

}  // namespace cbwc
