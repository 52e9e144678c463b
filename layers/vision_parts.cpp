#include "layers/vision_parts.h"

namespace cbwc {

ModelInput example_images(int64_t batch, int64_t channels, int64_t side, DType dtype,
                          uint64_t seed) {
  Tensor images = Tensor::empty({batch, channels, side, side}, dtype);
  Rng rng(seed, "example");
  fill_normal(images, 0.0, 1.0, rng);
  return {.images = images};
}

}  // namespace cbwc
