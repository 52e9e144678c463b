#include "layers/embedding.h"

#include <fmt/format.h>

#include "autograd/ops/embedding.h"
#include "layers/centered_embedding.h"

namespace cbwc {

Embedding::Embedding(Module* parent, const std::string& name, int64_t rows, int64_t dim, Role role,
                     const Init& init)
    : Module(parent, name), weight_(add_parameter("weight", {rows, dim}, role, init)) {}

std::string Embedding::describe() const {
  return fmt::format("Embedding {} x {}", weight_->value().size(0), weight_->value().size(1));
}

Variable Embedding::forward(const Tensor& ids) {
  const ScopeGuard scope(name());
  return embedding(use(weight_), ids);
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
