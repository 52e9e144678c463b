// Swin Transformer (Liu et al., 2021) for images of any size: patches, optionally a norm, stages of
// pre-norm blocks with attention in windows, every second one shifted, patch merging between
// stages, final norm; mean over the map and head, or none. Weights are drawn with init_std, biases
// zero.
//
// Where RMSNorm equals LayerNorm exactly in cbwc_rmsnorm (method.md 6): the patch norm, the last
// stage's norms and the final one. The other stages' streams are read by a merging norm, and with
// the patch norm the first one starts at an affine output.
#pragma once
#include "layers/patch_embedding.h"
#include "layers/patch_merging.h"
#include "layers/vision_parts.h"
#include "layers/window_attention.h"

namespace cbwc {

struct SwinConfig : VisionConfig {  // any size of image will do: `image` is for describe()
  SwinConfig() {
    patch = 4;
    dim = 96;  // of the first stage; each merging doubles it
  }
  std::vector<int64_t> depths = {2, 2, 6, 2}, stage_heads = {3, 6, 12, 24};
  int64_t window = 7;
  bool qkv_bias = true, patch_norm = true;
};

class SwinBlock : public Module {
 public:
  SwinBlock(Module* parent, const std::string& name, const SwinConfig& config,
            const WindowOptions& attention, const BranchOptions& branch, const Init& init);
  std::string describe() const override;
  Variable forward(const Variable& x, const Context& context);  // (B, H, W, C), C + 1 when carried
  const WindowAttention& attention() const { return attention_; }
  const Mlp& mlp() const { return mlp_; }

 private:
  std::unique_ptr<NormLayer> norm1_;
  WindowAttention attention_;
  std::unique_ptr<NormLayer> norm2_;
  Mlp mlp_;
};

class Swin : public Model {
 public:
  Swin(const SwinConfig& config, uint64_t seed);  // Error for sizes that do not fit together
  std::string describe() const override;
  const SwinConfig& config() const { return config_; }
  // (B, classes); without a head the last map's places row by row, (B, H * W, C)
  Variable logits(const ModelInput& input, const Context& context) override;
  DType dtype() const override { return config_.dtype; }
  // An image whose first stage is padded, shifted and merged with padding.
  ModelInput example(int64_t batch, uint64_t seed) const override;
  void project_parameters() override;

 private:
  const SwinConfig config_;
  const BranchOptions branch_;
  std::unique_ptr<PatchEmbedding> patch_;
  std::unique_ptr<NormLayer> patch_norm_;  // null without
  std::unique_ptr<Dropout> dropout_;
  std::vector<std::vector<std::unique_ptr<SwinBlock>>> stages_;
  std::vector<std::unique_ptr<PatchMerging>> merges_;
  std::unique_ptr<NormLayer> norm_;
  std::unique_ptr<Linear> head_;  // null without
};

}  // namespace cbwc
