// What several augmentations share.
#pragma once
#include <algorithm>
#include <vector>

#include "data/image.h"

namespace cbwc {

inline float clamp_pixel(float value) { return std::clamp(value, 0.0f, 1.0f); }

// from + factor (to - from), clamped: factor 1 gives `to` exactly.
inline float blend(float from, float to, double factor) {
  if (factor == 1) return to;
  return clamp_pixel(from + static_cast<float>(factor) * (to - from));
}

// The luminance of ITU-R 601 of three channels, the plane itself of one.
inline std::vector<float> grey_plane(const Image& image) {
  const auto plane = static_cast<size_t>(image.height * image.width);
  std::vector<float> grey(image.pixels.begin(), image.pixels.begin() + std::ptrdiff_t(plane));
  if (image.channels == 1) return grey;
  for (size_t i = 0; i < plane; ++i)
    grey[i] = 0.299f * image.plane(0)[i] + 0.587f * image.plane(1)[i] + 0.114f * image.plane(2)[i];
  return grey;
}

}  // namespace cbwc
