// An image in memory, and cutting and resizing it. Pixels are floats, 0 = black, 1 = white.
#pragma once
#include <cstdint>
#include <vector>

namespace cbwc {

struct Image {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<float> pixels = {};  // (channels, height, width)

  static Image zeros(int64_t channels, int64_t height, int64_t width);
  // From 8-bit values: planes (channels, height, width), or interleaved (height, width, channels).
  static Image from_planes(const uint8_t* data, int64_t channels, int64_t height, int64_t width);
  static Image from_interleaved(const uint8_t* data, int64_t channels, int64_t height,
                                int64_t width);
  float* plane(int64_t c) { return pixels.data() + c * height * width; }
  const float* plane(int64_t c) const { return pixels.data() + c * height * width; }
  float& at(int64_t c, int64_t y, int64_t x) { return plane(c)[y * width + x]; }
  float at(int64_t c, int64_t y, int64_t x) const { return plane(c)[y * width + x]; }
};

// The rectangle must lie inside the image (Error).
Image crop(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width);
// With antialiasing, as Pillow's and torchvision's (a triangle, or the cubic of a = -1/2, as wide
// as the reduction), without their rounding to 8 bits in between. Bicubic stays within 0 and 1.
enum class ResizeFilter { bilinear, bicubic };
Image resize(const Image& image, int64_t height, int64_t width,
             ResizeFilter filter = ResizeFilter::bilinear);
// The shorter side becomes `size`, the other keeps the aspect (rounded down).
Image resize_shorter(const Image& image, int64_t size,
                     ResizeFilter filter = ResizeFilter::bilinear);
// size x size from the middle; a smaller image is an Error.
Image centre_crop(const Image& image, int64_t size);

}  // namespace cbwc
