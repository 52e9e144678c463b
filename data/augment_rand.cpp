#include "data/augment_rand.h"

#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "core/check.h"
#include "data/augment.h"
#include "data/augment_blend.h"

namespace cbwc {
namespace {

constexpr int kLevels = 256;
constexpr double kMostRotation = 30, kMostShear = 0.3, kMostTranslation = 0.45;
constexpr double kMostEnhancement = 0.9, kLeastFactor = 0.1;
constexpr int kPosterizeBits = 4, kMostAdded = 110, kMiddleLevel = 128;

int level_of(float value) { return static_cast<int>(clamp_pixel(value) * (kLevels - 1) + 0.5f); }
float of_level(int level) { return static_cast<float>(level) / (kLevels - 1); }

void map_levels(Image& image, const std::function<int(int)>& f) {
  std::array<float, kLevels> table;
  for (int level = 0; level < kLevels; ++level)
    table[static_cast<size_t>(level)] = of_level(std::clamp(f(level), 0, kLevels - 1));
  for (float& value : image.pixels) value = table[static_cast<size_t>(level_of(value))];
}

void invert(Image& image) {
  for (float& value : image.pixels) value = 1 - value;
}

// The darkest value of each channel becomes 0, the brightest 1.
void autocontrast(Image& image) {
  const int64_t plane = image.height * image.width;
  for (int64_t c = 0; c < image.channels; ++c) {
    float* values = image.plane(c);
    const auto [low, high] = std::minmax_element(values, values + plane);
    const float from = *low, range = *high - *low;
    if (range <= 0) continue;
    for (int64_t i = 0; i < plane; ++i) values[i] = clamp_pixel((values[i] - from) / range);
  }
}

// Pillow's: every step of the new scale holds about as many pixels.
void equalize(Image& image) {
  const int64_t plane = image.height * image.width;
  for (int64_t c = 0; c < image.channels; ++c) {
    float* values = image.plane(c);
    std::array<int64_t, kLevels> counts{};
    for (int64_t i = 0; i < plane; ++i) ++counts[static_cast<size_t>(level_of(values[i]))];
    int64_t last = 0;
    for (const int64_t count : counts)
      if (count > 0) last = count;
    const int64_t step = (plane - last) / (kLevels - 1);
    if (step == 0) continue;
    std::array<float, kLevels> table;
    int64_t sum = step / 2;
    for (size_t level = 0; level < kLevels; ++level) {
      table[level] = of_level(static_cast<int>(std::min<int64_t>(sum / step, kLevels - 1)));
      sum += counts[level];
    }
    for (int64_t i = 0; i < plane; ++i) values[i] = table[static_cast<size_t>(level_of(values[i]))];
  }
}

// Towards the image smoothed by (1 1 1; 1 5 1; 1 1 1) / 13, whose border stays as it is.
void adjust_sharpness(Image& image, double factor) {
  const Image before = image;
  for (int64_t c = 0; c < image.channels; ++c)
    for (int64_t y = 1; y + 1 < image.height; ++y)
      for (int64_t x = 1; x + 1 < image.width; ++x) {
        float sum = 4 * before.at(c, y, x);
        for (int64_t dy = -1; dy <= 1; ++dy)
          for (int64_t dx = -1; dx <= 1; ++dx) sum += before.at(c, y + dy, x + dx);
        image.at(c, y, x) = blend(sum / 13, before.at(c, y, x), factor);
      }
}

// Output point (x, y) shows the input point (m0 x + m1 y + m2, m3 x + m4 y + m5).
void move(Image& image, const std::array<double, 6>& m, const std::vector<double>& fill) {
  const Image before = image;
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  const auto near = [](double value, int64_t extent) {
    return std::clamp<int64_t>(static_cast<int64_t>(value), 0, extent - 1);
  };
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x) {
      const double cx = static_cast<double>(x) + 0.5, cy = static_cast<double>(y) + 0.5;
      double sx = m[0] * cx + m[1] * cy + m[2], sy = m[3] * cx + m[4] * cy + m[5];
      if (sx < 0 || sy < 0 || sx >= width || sy >= height) {
        for (int64_t c = 0; c < image.channels; ++c)
          image.at(c, y, x) = static_cast<float>(fill[static_cast<size_t>(c)]);
        continue;
      }
      sx -= 0.5;
      sy -= 0.5;
      const double left = std::floor(sx), top = std::floor(sy);
      const auto fx = static_cast<float>(sx - left), fy = static_cast<float>(sy - top);
      const int64_t x0 = near(left, image.width), x1 = near(left + 1, image.width);
      const int64_t y0 = near(top, image.height), y1 = near(top + 1, image.height);
      for (int64_t c = 0; c < image.channels; ++c) {
        const float upper = (1 - fx) * before.at(c, y0, x0) + fx * before.at(c, y0, x1);
        const float lower = (1 - fx) * before.at(c, y1, x0) + fx * before.at(c, y1, x1);
        image.at(c, y, x) = (1 - fy) * upper + fy * lower;
      }
    }
}

void rotate(Image& image, double degrees, const std::vector<double>& fill) {
  const double angle = degrees * std::numbers::pi / 180, s = std::sin(angle), c = std::cos(angle);
  const double x = static_cast<double>(image.width) / 2, y = static_cast<double>(image.height) / 2;
  move(image, {c, s, x - c * x - s * y, -s, c, y + s * x - c * y}, fill);
}

// m = magnitude / 10, s = sign * m.
using Op = void (*)(Image& image, double m, double s, const std::vector<double>& fill);
double factor_of(double s) { return std::max(1 + kMostEnhancement * s, kLeastFactor); }

// clang-format off
const std::vector<std::pair<std::string, Op>>& table() {
  using Fill = const std::vector<double>&;
  static const std::vector<std::pair<std::string, Op>> ops = {
    {"autocontrast", [](Image& i, double, double, Fill) { autocontrast(i); }},
    {"equalize", [](Image& i, double, double, Fill) { equalize(i); }},
    {"invert", [](Image& i, double, double, Fill) { invert(i); }},
    {"rotate", [](Image& i, double, double s, Fill f) { rotate(i, kMostRotation * s, f); }},
    {"posterize", [](Image& i, double m, double, Fill) {
      const int bits = kPosterizeBits - static_cast<int>(m * kPosterizeBits);
      map_levels(i, [mask = 0xFF & ~(0xFF >> bits)](int level) { return level & mask; });
    }},
    {"solarize", [](Image& i, double m, double, Fill) {
      const int threshold = kLevels - static_cast<int>(m * kLevels);
      map_levels(i, [=](int level) { return level < threshold ? level : kLevels - 1 - level; });
    }},
    {"solarize_add", [](Image& i, double m, double, Fill) {
      const int added = static_cast<int>(m * kMostAdded);
      map_levels(i, [=](int level) { return level < kMiddleLevel ? level + added : level; });
    }},
    {"color", [](Image& i, double, double s, Fill) { adjust_saturation(i, factor_of(s)); }},
    {"contrast", [](Image& i, double, double s, Fill) { adjust_contrast(i, factor_of(s)); }},
    {"brightness", [](Image& i, double, double s, Fill) { adjust_brightness(i, factor_of(s)); }},
    {"sharpness", [](Image& i, double, double s, Fill) { adjust_sharpness(i, factor_of(s)); }},
    {"shear_x", [](Image& i, double, double s, Fill f) { move(i, {1, kMostShear * s, 0, 0, 1, 0}, f); }},
    {"shear_y", [](Image& i, double, double s, Fill f) { move(i, {1, 0, 0, kMostShear * s, 1, 0}, f); }},
    {"translate_x", [](Image& i, double, double s, Fill f) {
      move(i, {1, 0, kMostTranslation * s * static_cast<double>(i.width), 0, 1, 0}, f);
    }},
    {"translate_y", [](Image& i, double, double s, Fill f) {
      move(i, {1, 0, 0, 0, 1, kMostTranslation * s * static_cast<double>(i.height)}, f);
    }},
  };
  return ops;
}
// clang-format on

}  // namespace

const std::vector<std::string>& rand_augment_ops() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, op] : table()) all.push_back(name);
    return all;
  }();
  return names;
}

void apply_rand_op(Image& image, const std::string& op, double magnitude, int sign,
                   const std::vector<double>& fill) {
  CBWC_CHECK(std::ssize(fill) == image.channels, "RandAugment: a fill of ", fill.size(),
             " channels for an image of ", image.channels);
  for (const auto& [name, f] : table())
    if (name == op) return f(image, magnitude / 10, sign * magnitude / 10, fill);
  detail::fail("RandAugment: there is no operation '", op, "'");
}

void rand_augment(Image& image, int64_t count, double magnitude, const std::vector<double>& fill,
                  Rng& rng) {
  for (int64_t i = 0; i < count; ++i) {
    const std::string& op = rand_augment_ops()[rng.below(rand_augment_ops().size())];
    const bool applied = rng.below(2) == 1;
    const int sign = rng.below(2) == 1 ? 1 : -1;
    if (applied) apply_rand_op(image, op, magnitude, sign, fill);
  }
}

}  // namespace cbwc
