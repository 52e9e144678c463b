// CenteredEmbedding: every gathered row minus its mean. The table is the proxy: a tied head reads
// it raw (method.md 2).
#pragma once
#include "layers/embedding.h"

namespace cbwc {

class CenteredEmbedding : public Embedding {
 public:
  using Embedding::Embedding;
  std::string describe() const override;
  Variable forward(const Tensor& ids) override;
};

}  // namespace cbwc
