// What the image models share: sizes and arms, a random example.
#pragma once
#include "layers/branch.h"
#include "layers/mlp.h"
#include "layers/model.h"

namespace cbwc {

struct VisionConfig {
  int64_t image = 224, channels = 3, patch = 16, dim = 0;  // image, patch: height and width
  double mlp_ratio = 4;
  Norm norm = Norm::layernorm;
  double norm_eps = 1e-5;
  bool norm_bias = true;
  double drop_path = 0;  // of the last block; rises linearly from 0
  double dropout = 0, attention_dropout = 0;
  DropoutPlacement dropout_placement = DropoutPlacement::element;
  Gelu gelu = Gelu::erf;
  int64_t classes = 0;
  bool head = true;  // false: logits() gives what the final norm does, (B, T, C)
  DType dtype = DType::f32;
  double init_std = 0.02;
};

// Error for a number beside the sizes that is out of range.
void check_numbers(const VisionConfig& config);

std::string head_text(const VisionConfig& config);  // "10 classes", "no head"

// Standard normal pixels (batch, channels, side, side).
ModelInput example_images(int64_t batch, int64_t channels, int64_t side, DType dtype,
                          uint64_t seed);

}  // namespace cbwc
