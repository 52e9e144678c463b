#include "data/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "data/augment_blend.h"

namespace cbwc {
namespace {

constexpr int kAttempts = 10;
constexpr double kCropAspect = 4.0 / 3.0;
constexpr double kEraseLeast = 0.02, kEraseMost = 1.0 / 3.0;
constexpr double kEraseAspectLow = 0.3, kEraseAspectHigh = 3.3;

double between(double low, double high, Rng& rng) { return low + (high - low) * rng.uniform(); }
int64_t index_below(int64_t n, Rng& rng) {
  return static_cast<int64_t>(rng.below(static_cast<uint64_t>(n)));
}

// Gamma(shape, 1) by Marsaglia and Tsang (2000), with their boost below 1.
double gamma_draw(double shape, Rng& rng) {
  if (shape < 1) {
    const double u = 1 - rng.uniform();  // (0, 1]
    return gamma_draw(shape + 1, rng) * std::pow(u, 1 / shape);
  }
  const double d = shape - 1.0 / 3.0, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = rng.normal(), v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - rng.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

Image fallback_crop(const Image& image) {
  const double aspect = static_cast<double>(image.width) / static_cast<double>(image.height);
  int64_t height = image.height, width = image.width;
  if (aspect < 1 / kCropAspect)
    height = std::lround(static_cast<double>(width) * kCropAspect);
  else if (aspect > kCropAspect)
    width = std::lround(static_cast<double>(height) * kCropAspect);
  return crop(image, (image.height - height) / 2, (image.width - width) / 2, height, width);
}

}  // namespace

Image random_resized_crop(const Image& image, int64_t size, double scale, Rng& rng) {
  const auto area = static_cast<double>(image.height * image.width);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double part = area * between(scale, 1, rng);
    const double aspect = std::exp(between(-std::log(kCropAspect), std::log(kCropAspect), rng));
    const int64_t width = std::lround(std::sqrt(part * aspect));
    const int64_t height = std::lround(std::sqrt(part / aspect));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    const int64_t top = index_below(image.height - height + 1, rng);
    const int64_t left = index_below(image.width - width + 1, rng);
    return resize(crop(image, top, left, height, width), size, size);
  }
  return resize(fallback_crop(image), size, size);
}

Image shift(const Image& image, int64_t down, int64_t right) {
  Image out = Image::zeros(image.channels, image.height, image.width);
  const int64_t first = std::max<int64_t>(0, right);
  const int64_t count = std::max<int64_t>(image.width - std::abs(right), 0);
  for (int64_t c = 0; c < image.channels && count > 0; ++c)
    for (int64_t y = std::max<int64_t>(0, down); y < image.height + std::min<int64_t>(0, down); ++y)
      std::copy_n(image.plane(c) + (y - down) * image.width + first - right, count,
                  out.plane(c) + y * image.width + first);
  return out;
}

Image pad_crop(const Image& image, int64_t pad, Rng& rng) {
  const int64_t down = index_below(2 * pad + 1, rng) - pad;
  return shift(image, down, index_below(2 * pad + 1, rng) - pad);
}

Image flip(const Image& image) {
  Image out = image;
  for (int64_t row = 0; row < image.channels * image.height; ++row)
    std::reverse(out.pixels.begin() + row * image.width,
                 out.pixels.begin() + (row + 1) * image.width);
  return out;
}

void adjust_brightness(Image& image, double factor) {
  for (float& value : image.pixels) value = blend(0, value, factor);
}

void adjust_contrast(Image& image, double factor) {
  const std::vector<float> grey = grey_plane(image);
  const double sum = std::accumulate(grey.begin(), grey.end(), 0.0);
  const auto mean = static_cast<float>(sum / static_cast<double>(grey.size()));
  for (float& value : image.pixels) value = blend(mean, value, factor);
}

void adjust_saturation(Image& image, double factor) {
  if (image.channels == 1) return;
  const std::vector<float> grey = grey_plane(image);
  for (int64_t c = 0; c < image.channels; ++c)
    for (size_t i = 0; i < grey.size(); ++i)
      image.plane(c)[i] = blend(grey[i], image.plane(c)[i], factor);
}

void jitter(Image& image, double strength, Rng& rng) {
  std::array<int, 3> order = {0, 1, 2};
  for (size_t i = 3; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  for (const int which : order) {
    const double factor = between(1 - strength, 1 + strength, rng);
    if (which == 0) adjust_brightness(image, factor);
    if (which == 1) adjust_contrast(image, factor);
    if (which == 2) adjust_saturation(image, factor);
  }
}

void erase(Image& image, double probability, Rng& rng) {
  if (rng.uniform() >= probability) return;
  const auto area = static_cast<double>(image.height * image.width);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double part = area * between(kEraseLeast, kEraseMost, rng);
    const double aspect =
        std::exp(between(std::log(kEraseAspectLow), std::log(kEraseAspectHigh), rng));
    const int64_t height = std::lround(std::sqrt(part * aspect));
    const int64_t width = std::lround(std::sqrt(part / aspect));
    if (height < 1 || width < 1 || height >= image.height || width >= image.width) continue;
    const int64_t top = index_below(image.height - height + 1, rng);
    const int64_t left = index_below(image.width - width + 1, rng);
    for (int64_t c = 0; c < image.channels; ++c)
      for (int64_t y = top; y < top + height; ++y)
        for (int64_t x = left; x < left + width; ++x)
          image.at(c, y, x) = static_cast<float>(rng.normal());
    return;
  }
}

double beta_draw(double alpha, Rng& rng) {
  CBWC_CHECK(alpha > 0, "mixup, cutmix: alpha is ", alpha, "; expected above 0");
  const double a = gamma_draw(alpha, rng), b = gamma_draw(alpha, rng);
  // With a tiny alpha both can underflow; then either end is as likely as the other.
  return a + b > 0 ? a / (a + b) : static_cast<double>(rng.below(2));
}

double mix_up(float* images, int64_t rows, int64_t values, double share) {
  const auto own = static_cast<float>(share), other = static_cast<float>(1 - share);
  for (int64_t row = 0; row < (rows + 1) / 2; ++row) {
    float *a = images + row * values, *b = images + (rows - 1 - row) * values;
    if (a == b) continue;  // the middle row is its own partner
    for (int64_t i = 0; i < values; ++i) {
      const float first = a[i], second = b[i];
      a[i] = own * first + other * second;
      b[i] = own * second + other * first;
    }
  }
  return share;
}

double cut_mix(float* images, int64_t rows, int64_t channels, int64_t height, int64_t width,
               double share, Rng& rng) {
  const double ratio = std::sqrt(1 - share);
  const auto half_height = static_cast<int64_t>(static_cast<double>(height) * ratio) / 2;
  const auto half_width = static_cast<int64_t>(static_cast<double>(width) * ratio) / 2;
  const int64_t y = index_below(height, rng), x = index_below(width, rng);
  const int64_t top = std::max<int64_t>(y - half_height, 0);
  const int64_t bottom = std::min(y + half_height, height);
  const int64_t left = std::max<int64_t>(x - half_width, 0);
  const int64_t right = std::min(x + half_width, width);
  for (int64_t row = 0; row < rows / 2; ++row)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t line = top; line < bottom; ++line) {
        float* a = images + ((row * channels + c) * height + line) * width;
        float* b = images + (((rows - 1 - row) * channels + c) * height + line) * width;
        std::swap_ranges(a + left, a + right, b + left);
      }
  return 1 -
         static_cast<double>((bottom - top) * (right - left)) / static_cast<double>(height * width);
}

double mix_batch(float* images, int64_t rows, int64_t channels, int64_t height, int64_t width,
                 const AugmentOptions& options, Rng& rng) {
  if (options.mixup <= 0 && options.cutmix <= 0) return 1;
  const bool both = options.mixup > 0 && options.cutmix > 0;
  const bool cut = both ? rng.below(2) == 1 : options.cutmix > 0;
  const double share = beta_draw(cut ? options.cutmix : options.mixup, rng);
  return cut ? cut_mix(images, rows, channels, height, width, share, rng)
             : mix_up(images, rows, channels * height * width, share);
}

}  // namespace cbwc
