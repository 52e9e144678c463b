#include "layers/vision_parts.h"

#include <fmt/format.h>

#include <cmath>

namespace cbwc {

void check_numbers(const VisionConfig& c) {
  CBWC_CHECK(c.norm_eps >= 0 && std::isfinite(c.norm_eps), "model: norm_eps must be at least 0");
  CBWC_CHECK(c.init_std >= 0 && std::isfinite(c.init_std), "model: init_std must be at least 0");
  CBWC_CHECK(std::isfinite(c.mlp_ratio) && c.mlp_ratio * static_cast<double>(c.dim) >= 1,
             "model: mlp_ratio ", c.mlp_ratio, " leaves no hidden channel");
  CBWC_CHECK(c.drop_path >= 0 && c.drop_path < 1, "model: drop_path must lie in [0, 1), got ",
             c.drop_path);
}

std::string head_text(const VisionConfig& config) {
  return config.head ? fmt::format("{} classes", config.classes) : "no head";
}

ModelInput example_images(int64_t batch, int64_t channels, int64_t side, DType dtype,
                          uint64_t seed) {
  Tensor images = Tensor::empty({batch, channels, side, side}, dtype);
  Rng rng(seed, "example");
  fill_normal(images, 0.0, 1.0, rng);
  return {.images = images};
}

}  // namespace cbwc
