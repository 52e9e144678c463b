// Vision Transformer (Dosovitskiy et al., 2021): patches, learned positions, pre-norm blocks, final
// norm, and a head that reads a class token or the mean over the patches, or none. Weights are
// drawn with init_std, biases zero. Every norm folds: 2 layers + 1 (method.md 6).
#pragma once
#include "layers/embedding.h"
#include "layers/patch_embedding.h"
#include "layers/transformer_block.h"
#include "layers/vision_parts.h"

namespace cbwc {

enum class Pool { class_token, mean };
Pool parse_pool(const std::string& name);
const char* pool_name(Pool pool);

struct VitConfig : VisionConfig {
  VitConfig() { dim = 768; }
  int64_t layers = 12, heads = 12;
  Pool pool = Pool::class_token;
  QkNorm qk_norm = QkNorm::none;
};

class Vit : public Model {
 public:
  Vit(const VitConfig& config, uint64_t seed);  // Error for sizes that do not fit together
  std::string describe() const override;
  const VitConfig& config() const { return config_; }
  // images of the configured size alone, as the positions are learned -> (B, classes); without a
  // head (B, T, dim), the class token first
  Variable logits(const ModelInput& input, const Context& context) override;
  DType dtype() const override { return config_.dtype; }
  ModelInput example(int64_t batch, uint64_t seed) const override;
  void project_parameters() override;

 private:
  Variable embed(const Tensor& images, const Context& context);  // (B, T, dim)
  const VitConfig config_;
  const BranchOptions branch_;
  std::unique_ptr<PatchEmbedding> patch_;
  std::unique_ptr<Embedding> class_token_;  // one row; null for Pool::mean
  std::unique_ptr<Embedding> positions_;
  std::unique_ptr<Dropout> dropout_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::unique_ptr<NormLayer> norm_;
  std::unique_ptr<Linear> head_;  // null without
};

}  // namespace cbwc
