// Patch embedding: the convolution whose stride is its kernel, as one product of the patches with a
// Linear (dim, channels * patch * patch). Images whose size the patch does not divide are padded
// with zeros at the bottom and on the right.
#pragma once
#include <memory>

#include "layers/linear.h"

namespace cbwc {

struct PatchEmbeddingOptions {
  int64_t channels = 3, patch = 4, dim = 0;
  bool centered = false;  // a writer of the stream in the arm cbwc_rmsnorm
};

class PatchEmbedding : public Module {
 public:
  PatchEmbedding(Module* parent, const std::string& name, const PatchEmbeddingOptions& options,
                 const Init& init);
  std::string describe() const override;
  Variable forward(const Tensor& images);  // (B, channels, H, W) -> (B, rows, columns, dim)
  const Linear& projection() const { return *projection_; }

 private:
  const PatchEmbeddingOptions options_;
  const DType dtype_;
  std::unique_ptr<Linear> projection_;
};

}  // namespace cbwc
