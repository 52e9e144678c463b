// Embedding: rows of a table (rows, dim) by id. An id outside the table is an Error.
#pragma once
#include <memory>

#include "layers/module.h"

namespace cbwc {

class Embedding : public Module {
 public:
  Embedding(Module* parent, const std::string& name, int64_t rows, int64_t dim, Role role,
            const Init& init);
  std::string describe() const override;
  virtual Variable forward(const Tensor& ids);
  const ParameterPtr& weight() const { return weight_; }

 protected:
  ParameterPtr weight_;
};

// CenteredEmbedding when `centered`, else Embedding.
std::unique_ptr<Embedding> make_embedding(bool centered, Module* parent, const std::string& name,
                                          int64_t rows, int64_t dim, Role role, const Init& init);

}  // namespace cbwc
