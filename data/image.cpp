#include "data/image.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace cbwc {
namespace {

constexpr float kByte = 1.0f / 255.0f;

// The weights of one output position: source positions first .. first + weights.size().
struct Window {
  int64_t first = 0;
  std::vector<float> weights;
};

double weight_at(double distance, ResizeFilter filter) {
  const double x = std::abs(distance);
  if (filter == ResizeFilter::bilinear) return std::max(1 - x, 0.0);
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

// Pillow's windows: the filter, max(in / out, 1) times as wide, around each output's centre.
std::vector<Window> windows(int64_t in, int64_t out, ResizeFilter filter) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double stretch = std::max(scale, 1.0);
  const double support = stretch * (filter == ResizeFilter::bilinear ? 1 : 2);
  std::vector<Window> all(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const int64_t last = std::min(static_cast<int64_t>(centre + support + 0.5), in);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t j = first; j < last; ++j) {
      weights.push_back(weight_at((static_cast<double>(j) + 0.5 - centre) / stretch, filter));
      sum += weights.back();
    }
    Window& window = all[static_cast<size_t>(i)];
    window.first = first;
    for (const double weight : weights) window.weights.push_back(static_cast<float>(weight / sum));
  }
  return all;
}

// Its negative weights reach beyond black and white at edges.
void keep_in_range(Image& image, ResizeFilter filter) {
  if (filter == ResizeFilter::bilinear) return;
  for (float& pixel : image.pixels) pixel = std::clamp(pixel, 0.0F, 1.0F);
}

Image resize_rows(const Image& image, int64_t width, ResizeFilter filter) {
  Image out = Image::zeros(image.channels, image.height, width);
  const std::vector<Window> all = windows(image.width, width, filter);
  for (int64_t row = 0; row < image.channels * image.height; ++row) {
    const float* from = image.pixels.data() + row * image.width;
    float* to = out.pixels.data() + row * width;
    for (const Window& window : all) {
      float sum = 0;
      for (size_t j = 0; j < window.weights.size(); ++j)
        sum += window.weights[j] * from[window.first + static_cast<int64_t>(j)];
      *to++ = sum;
    }
  }
  keep_in_range(out, filter);
  return out;
}

Image resize_columns(const Image& image, int64_t height, ResizeFilter filter) {
  Image out = Image::zeros(image.channels, height, image.width);
  const std::vector<Window> all = windows(image.height, height, filter);
  for (int64_t c = 0; c < image.channels; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      const Window& window = all[static_cast<size_t>(y)];
      float* to = out.plane(c) + y * image.width;
      for (size_t j = 0; j < window.weights.size(); ++j) {
        const float weight = window.weights[j];
        const float* from = image.plane(c) + (window.first + static_cast<int64_t>(j)) * image.width;
        for (int64_t x = 0; x < image.width; ++x) to[x] += weight * from[x];
      }
    }
  }
  keep_in_range(out, filter);
  return out;
}

}  // namespace

Image Image::zeros(int64_t channels, int64_t height, int64_t width) {
  CBWC_CHECK(channels >= 1 && height >= 1 && width >= 1, "image: ", channels, " channels of ",
             height, " x ", width, " pixels");
  return {channels, height, width,
          std::vector<float>(static_cast<size_t>(channels * height * width))};
}

Image Image::from_planes(const uint8_t* data, int64_t channels, int64_t height, int64_t width) {
  Image image = zeros(channels, height, width);
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<float>(data[i]) * kByte;
  return image;
}

Image Image::from_interleaved(const uint8_t* data, int64_t channels, int64_t height,
                              int64_t width) {
  Image image = zeros(channels, height, width);
  for (int64_t c = 0; c < channels; ++c) {
    float* plane = image.plane(c);
    for (int64_t i = 0; i < height * width; ++i)
      plane[i] = static_cast<float>(data[i * channels + c]) * kByte;
  }
  return image;
}

Image crop(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  CBWC_CHECK(top >= 0 && left >= 0 && top + height <= image.height && left + width <= image.width,
             "crop: ", height, " x ", width, " at (", top, ", ", left,
             ") is not inside an image of ", image.height, " x ", image.width);
  Image out = Image::zeros(image.channels, height, width);
  for (int64_t c = 0; c < image.channels; ++c)
    for (int64_t y = 0; y < height; ++y)
      std::copy_n(image.plane(c) + (top + y) * image.width + left, width, out.plane(c) + y * width);
  return out;
}

Image resize(const Image& image, int64_t height, int64_t width, ResizeFilter filter) {
  CBWC_CHECK(height >= 1 && width >= 1, "resize: to ", height, " x ", width);
  if (width == image.width)
    return height == image.height ? image : resize_columns(image, height, filter);
  const Image rows = resize_rows(image, width, filter);
  return height == image.height ? rows : resize_columns(rows, height, filter);
}

Image resize_shorter(const Image& image, int64_t size, ResizeFilter filter) {
  if (image.height <= image.width)
    return resize(image, size, size * image.width / image.height, filter);
  return resize(image, size * image.height / image.width, size, filter);
}

Image centre_crop(const Image& image, int64_t size) {
  // Halves go to the even side, as Python's round() does in torchvision.
  const auto middle = [&](int64_t extent) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(extent - size) / 2));
  };
  return crop(image, middle(image.height), middle(image.width), size, size);
}

}  // namespace cbwc
