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
  bool centre_output() override { return centre_output_ = true; }  // of the gathered rows
  bool can_centre_output() const override { return true; }
  const ParameterPtr& weight() const { return weight_; }

 protected:
  ParameterPtr weight_;

 private:
  bool centre_output_ = false;
};

// Fixed sinusoidal positions: column 2i of row p is sin(p / 10000^(2i / dim)), column 2i + 1 the
// cosine. A frozen parameter, so that it is saved and can be centred like any table.
class SinusoidalPositions : public Embedding {
 public:
  SinusoidalPositions(Module* parent, const std::string& name, int64_t rows, int64_t dim,
                      DType dtype);
  std::string describe() const override;
};

// CenteredEmbedding when `centered`, else Embedding.
std::unique_ptr<Embedding> make_embedding(bool centered, Module* parent, const std::string& name,
                                          int64_t rows, int64_t dim, Role role, const Init& init);

}  // namespace cbwc
