#include "layers/embedding.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/ops/embedding.h"
#include "layers/centered_embedding.h"

namespace cbwc {

Embedding::Embedding(Module* parent, const std::string& name, int64_t rows, int64_t dim, Role role,
                     const Init& init)
    : Module(parent, name), weight_(add_parameter("weight", {rows, dim}, role, init)) {}

std::string Embedding::describe() const {
  return fmt::format("{}Embedding {} x {}", centre_output_ ? "centred at run time, " : "",
                     weight_->value().size(0), weight_->value().size(1));
}

Variable Embedding::forward(const Tensor& ids) {
  const ScopeGuard scope(name());
  return centre_output_ ? centered_embedding(use(weight_), ids) : embedding(use(weight_), ids);
}

SinusoidalPositions::SinusoidalPositions(Module* parent, const std::string& name, int64_t rows,
                                         int64_t dim, DType dtype)
    : Embedding(parent, name, rows, dim, Role::position, Init{0, dtype, 0}) {
  std::vector<double> table;
  for (int64_t p = 0; p < rows; ++p) {
    for (int64_t c = 0; c < dim; ++c) {
      const double power = static_cast<double>(c - c % 2) / static_cast<double>(dim);
      const double angle = static_cast<double>(p) / std::pow(10000.0, power);
      table.push_back(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  weight_->mutate().copy_from(Tensor::from(table, {rows, dim}));
  weight_->set_trainable(false);
}

std::string SinusoidalPositions::describe() const {
  return "fixed sinusoidal " + Embedding::describe();
}

std::string CenteredEmbedding::describe() const { return "centred " + Embedding::describe(); }

Variable CenteredEmbedding::forward(const Tensor& ids) {
  const ScopeGuard scope(name());
  return centered_embedding(use(weight_), ids);
}

std::unique_ptr<Embedding> make_embedding(bool centered, Module* parent, const std::string& name,
                                          int64_t rows, int64_t dim, Role role, const Init& init) {
  if (centered) return std::make_unique<CenteredEmbedding>(parent, name, rows, dim, role, init);
  return std::make_unique<Embedding>(parent, name, rows, dim, role, init);
}

}  // namespace cbwc
