// TiedLinear: logits = h table^T with an embedding's table, which stays the embedding's parameter.
// When folding has centred that table, the head is made right again in one of two ways (method.md
// 5, "Ties").
#pragma once
#include "layers/module.h"

namespace cbwc {

// What folding left of a tied head (layers/folding.h, HeadTie): nothing done; the rank-one
// correction, a frozen parameter "row_means"; the token rows centred at run time.
enum class FoldedTie { none, rank_one, runtime };
FoldedTie parse_folded_tie(const std::string& name);

class TiedLinear : public Module {
 public:
  enum class State { tied, rank_one, untied };

  TiedLinear(Module* parent, const std::string& name, ParameterPtr table);  // (V, C)
  std::string describe() const override;
  Variable forward(const Variable& h);  // (..., C) -> (..., V)
  State state() const { return state_; }
  const ParameterPtr& weight() const { return weight_; }        // the table, or its own when untied
  const ParameterPtr& row_means() const { return row_means_; }  // null unless rank_one

  // Adds sum(h) row_means (V), a frozen parameter: what the table's rows have lost, put back.
  void correct_rank_one(const Tensor& row_means);
  // Reads its own parameter "weight" (V, C) from now on.
  void untie(const Tensor& weight);

 private:
  void check(const Tensor& value, const Shape& shape) const;
  ParameterPtr weight_, row_means_;
  State state_ = State::tied;
};

}  // namespace cbwc
