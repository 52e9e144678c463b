#include "data/augment.h"

#include <cmath>
#include <numeric>

#include "core/check.h"
#include "data/augment_rand.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

const std::vector<double> kGreyFill = {0.5, 0.25, 0.75};

Image numbered(int64_t channels, int64_t height, int64_t width) {
  Image image = Image::zeros(channels, height, width);
  std::iota(image.pixels.begin(), image.pixels.end(), 0.0f);
  return image;
}

// Multiples of 1/255, so that the ops on 256 levels keep them exactly.
Image speckled(int64_t channels, int64_t height, int64_t width) {
  Image image = Image::zeros(channels, height, width);
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<float>((i * 89 + 13) % 256) / 255;
  return image;
}

Image of_levels(std::vector<int> levels, int64_t channels, int64_t height, int64_t width) {
  Image image = Image::zeros(channels, height, width);
  for (size_t i = 0; i < levels.size(); ++i) image.pixels[i] = static_cast<float>(levels[i]) / 255;
  return image;
}

std::vector<int> levels_of(const Image& image) {
  std::vector<int> levels;
  for (const float value : image.pixels)
    levels.push_back(static_cast<int>(std::lround(value * 255)));
  return levels;
}

Image after(Image image, const std::string& op, double magnitude, int sign = 1) {
  std::vector<double> fill = kGreyFill;
  fill.resize(static_cast<size_t>(image.channels));
  apply_rand_op(image, op, magnitude, sign, fill);
  return image;
}

}  // namespace

TEST_CASE("Flipping mirrors left and right; twice is nothing") {
  const Image image = numbered(2, 3, 5);
  const Image mirrored = flip(image);
  CHECK(mirrored.at(1, 2, 0) == image.at(1, 2, 4));
  CHECK(mirrored.pixels != image.pixels);
  CHECK(flip(mirrored).pixels == image.pixels);
}

TEST_CASE("Shifting brings in black; no shift is nothing") {
  const Image image = numbered(1, 2, 3);
  CHECK(shift(image, 0, 0).pixels == image.pixels);
  CHECK(shift(image, 1, 0).pixels == std::vector<float>{0, 0, 0, 0, 1, 2});
  CHECK(shift(image, -1, 1).pixels == std::vector<float>{0, 3, 4, 0, 0, 0});
  CHECK(shift(image, 0, -2).pixels == std::vector<float>{2, 0, 0, 5, 0, 0});
  CHECK(shift(image, 2, 0).pixels == std::vector<float>(6));
  CHECK(shift(image, 0, -7).pixels == std::vector<float>(6));
  Rng rng(1, "pad");
  std::vector<int> seen(9);
  for (int i = 0; i < 900; ++i) {
    Image dot = Image::zeros(1, 3, 3);
    dot.at(0, 1, 1) = 1;
    const Image moved = pad_crop(dot, 1, rng);
    CHECK(std::accumulate(moved.pixels.begin(), moved.pixels.end(), 0.0f) == 1);
    ++seen[static_cast<size_t>(std::find(moved.pixels.begin(), moved.pixels.end(), 1.0f) -
                               moved.pixels.begin())];
  }
  // Nine places with 100 each expected; 5 standard deviations are 47.
  CHECK(*std::min_element(seen.begin(), seen.end()) > 53);
  CHECK(pad_crop(image, 0, rng).pixels == image.pixels);
}

TEST_CASE("A random crop has the area and aspect it should") {
  // Planes of x and y: their ranges tell which rectangle was taken.
  Image image = Image::zeros(2, 60, 80);
  for (int64_t y = 0; y < 60; ++y)
    for (int64_t x = 0; x < 80; ++x) {
      image.at(0, y, x) = static_cast<float>(x) + 0.5f;
      image.at(1, y, x) = static_cast<float>(y) + 0.5f;
    }
  Rng rng(2, "crop");
  double smallest = 1, largest = 0;
  for (int i = 0; i < 500; ++i) {
    const Image cut = random_resized_crop(image, 16, 0.2, rng);
    REQUIRE(cut.height == 16);
    REQUIRE(cut.width == 16);
    const double width = 16.0 / 13 * (cut.at(0, 8, 14) - cut.at(0, 8, 1));
    const double height = 16.0 / 13 * (cut.at(1, 14, 8) - cut.at(1, 1, 8));
    REQUIRE(cut.at(0, 0, 0) > 0);
    REQUIRE(cut.at(0, 0, 15) < 80);
    // Sides are whole pixels: half of one on a side of 20 is 2.5 %.
    CHECK(width / height < 4.0 / 3.0 * 1.06);
    CHECK(width / height > 3.0 / 4.0 / 1.06);
    smallest = std::min(smallest, width * height / 4800);
    largest = std::max(largest, width * height / 4800);
  }
  CHECK(smallest > 0.19);
  CHECK(smallest < 0.25);
  CHECK(largest > 0.85);
  // Nothing of the allowed aspect holds the whole area of a strip: its middle is taken.
  const Image strip = random_resized_crop(numbered(1, 3, 100), 3, 0.99, rng);
  CHECK(strip.at(0, 0, 1) == Approx(49.5).margin(0.01));
  // A square image and scale 1 leave only the whole of it.
  const Image square = numbered(1, 8, 8);
  CHECK(random_resized_crop(square, 8, 1, rng).pixels == square.pixels);
}

TEST_CASE("Brightness, contrast and saturation: factor 1 is nothing, 0 the named end") {
  const Image image = of_levels({100, 200, 40, 60, 0, 20}, 3, 1, 2);
  for (const auto adjust : {adjust_brightness, adjust_contrast, adjust_saturation}) {
    Image same = image;
    adjust(same, 1);
    CHECK(same.pixels == image.pixels);
  }
  Image made = image;
  adjust_brightness(made, 0.5);
  CHECK(levels_of(made) == std::vector<int>{50, 100, 20, 30, 0, 10});
  adjust_brightness(made, 4);
  CHECK(levels_of(made) == std::vector<int>{200, 255, 80, 120, 0, 40});
  made = image;
  adjust_saturation(made, 0);  // 0.299 r + 0.587 g + 0.114 b = 53.38, 97.3
  CHECK(levels_of(made) == std::vector<int>{53, 97, 53, 97, 53, 97});
  made = image;
  adjust_contrast(made, 0);  // the mean of both
  CHECK(levels_of(made) == std::vector<int>(6, 75));
  Image grey = of_levels({10, 20}, 1, 1, 2);
  adjust_saturation(grey, 0);
  CHECK(levels_of(grey) == std::vector<int>{10, 20});
  Rng rng(3, "jitter");
  made = image;
  jitter(made, 0, rng);
  CHECK(made.pixels == image.pixels);
  jitter(made, 0.4, rng);
  CHECK(made.pixels != image.pixels);
}

TEST_CASE("RandAugment's operations on single values") {
  const Image image = of_levels({0, 50, 127, 128, 200, 255}, 1, 2, 3);
  const auto levels = [&](const std::string& op, double magnitude) {
    return levels_of(after(image, op, magnitude));
  };
  CHECK(rand_augment_ops().size() == 15);
  CHECK(levels("invert", 0) == std::vector<int>{255, 205, 128, 127, 55, 0});
  CHECK(levels("posterize", 0) == std::vector<int>{0, 48, 112, 128, 192, 240});
  CHECK(levels("posterize", 9) == std::vector<int>{0, 0, 0, 128, 128, 128});
  CHECK(levels("solarize", 5) == std::vector<int>{0, 50, 127, 127, 55, 0});
  CHECK(levels("solarize_add", 5) == std::vector<int>{55, 105, 182, 128, 200, 255});
  CHECK(levels("brightness", 10) == std::vector<int>{0, 95, 241, 243, 255, 255});
  CHECK(levels_of(after(image, "brightness", 10, -1)) == std::vector<int>{0, 5, 13, 13, 20, 26});
  CHECK(levels_of(after(of_levels({50, 100, 149}, 1, 1, 3), "autocontrast", 0)) ==
        std::vector<int>{0, 129, 255});
  CHECK(levels_of(after(of_levels({7, 7, 7}, 1, 1, 3), "autocontrast", 0)) ==
        std::vector<int>{7, 7, 7});
  // What changes nothing without strength.
  const Image color = speckled(3, 7, 9);
  for (const std::string op :
       {"rotate", "solarize", "solarize_add", "color", "contrast", "brightness", "sharpness",
        "shear_x", "shear_y", "translate_x", "translate_y"}) {
    CAPTURE(op);
    const Image same = after(color, op, 0);
    for (size_t i = 0; i < same.pixels.size(); ++i)
      REQUIRE(std::abs(same.pixels[i] - color.pixels[i]) < 1e-6);
    CHECK(after(color, op, 7).pixels != color.pixels);
    CHECK(after(color, op, 7).pixels == after(color, op, 7).pixels);
  }
  CHECK_THROWS_AS(after(image, "blur", 3), Error);
}

TEST_CASE("Equalising spreads the levels evenly") {
  // 64 x 64 pixels of 16 neighbouring dark levels, 256 of each.
  Image image = Image::zeros(1, 64, 64);
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<float>(20 + i % 16) / 255;
  const Image made = after(image, "equalize", 0);
  // step = (4096 - 256) / 255 = 15; level k maps to (7 + 256 k) / 15.
  for (int k = 0; k < 16; ++k)
    CHECK(levels_of(made)[static_cast<size_t>(k)] == std::min((7 + 256 * k) / 15, 255));
}

TEST_CASE("Moving operations move by what they say and fill with the colour given") {
  const Image image = speckled(3, 20, 20);
  // 0.45 of 20 pixels at full strength: 9, the content goes left (up) with a positive sign.
  const Image left = after(image, "translate_x", 10), up = after(image, "translate_y", 10);
  const Image right = after(image, "translate_x", 10, -1);
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t y = 0; y < 20; ++y)
      for (int64_t x = 0; x < 20; ++x) {
        const auto fill = static_cast<float>(kGreyFill[static_cast<size_t>(c)]);
        REQUIRE(left.at(c, y, x) == Approx(x < 11 ? image.at(c, y, x + 9) : fill).margin(1e-6));
        REQUIRE(right.at(c, y, x) == Approx(x >= 9 ? image.at(c, y, x - 9) : fill).margin(1e-6));
        REQUIRE(up.at(c, y, x) == Approx(y < 11 ? image.at(c, y + 9, x) : fill).margin(1e-6));
      }
  // A shear leaves the row at height 0 nearly in place and moves the last by 0.3 * 19.5 pixels.
  const Image sheared = after(image, "shear_x", 10);
  const double moved = 0.3 * 19.5;  // 5.85: between x + 5 and x + 6
  CHECK(sheared.at(0, 19, 4) ==
        Approx((6 - moved) * image.at(0, 19, 9) + (moved - 5) * image.at(0, 19, 10)).margin(1e-5));
  // Two turns back and forth about the centre: the centre of a smooth image stays.
  Image smooth = Image::zeros(1, 21, 21);
  for (int64_t y = 0; y < 21; ++y)
    for (int64_t x = 0; x < 21; ++x)
      smooth.at(0, y, x) =
          static_cast<float>(0.02 * static_cast<double>(x) + 0.01 * static_cast<double>(y));
  const Image turned = after(smooth, "rotate", 10);  // 30 degrees: a plane stays a plane
  CHECK(turned.at(0, 10, 10) == Approx(smooth.at(0, 10, 10)).margin(1e-6));
  const double c30 = std::cos(M_PI / 6), s30 = std::sin(M_PI / 6);
  const double x3 = 10 + 3 * c30, y3 = 10 - 3 * s30;
  CHECK(turned.at(0, 10, 13) == Approx(0.02 * x3 + 0.01 * y3).margin(1e-6));
}

TEST_CASE("RandAugment draws every operation, and each at half of the times") {
  const Image image = speckled(3, 12, 12);
  Rng rng(5, "rand");
  int changed = 0;
  for (int i = 0; i < 1000; ++i) {
    Image made = image;
    rand_augment(made, 1, 9, kGreyFill, rng);
    for (const float value : made.pixels) REQUIRE((value >= 0 && value <= 1));
    changed += made.pixels != image.pixels;
  }
  // Half of them, less the one in 15 (autocontrast of a full range) that changes nothing; 5 sigma.
  CHECK(std::abs(changed - 500 * 14 / 15) < 5 * 16);
  Image made = image;
  rand_augment(made, 0, 9, kGreyFill, rng);
  CHECK(made.pixels == image.pixels);
}

TEST_CASE("Erasing puts noise into one rectangle") {
  Rng rng(6, "erase");
  int erased = 0;
  double part = 0;
  for (int i = 0; i < 400; ++i) {
    Image image = Image::zeros(2, 24, 24);
    erase(image, 0.5, rng);
    int64_t top = 24, bottom = -1, left = 24, right = -1, changed = 0;
    for (int64_t y = 0; y < 24; ++y)
      for (int64_t x = 0; x < 24; ++x)
        if (image.at(0, y, x) != 0) {
          ++changed;
          top = std::min(top, y), bottom = std::max(bottom, y);
          left = std::min(left, x), right = std::max(right, x);
          REQUIRE(image.at(1, y, x) != 0);
          REQUIRE(image.at(1, y, x) != image.at(0, y, x));
        }
    if (changed == 0) continue;
    ++erased;
    REQUIRE(changed == (bottom - top + 1) * (right - left + 1));
    part += static_cast<double>(changed) / 576;
    CHECK(static_cast<double>(changed) / 576 < 0.36);
  }
  CHECK(std::abs(erased - 200) < 50);
  CHECK(part / erased == Approx(0.17).margin(0.03));
  Image image = numbered(1, 4, 4);
  erase(image, 0, rng);
  CHECK(image.pixels == numbered(1, 4, 4).pixels);
}

TEST_CASE("Beta draws have the right mean and spread") {
  for (const double alpha : {0.2, 0.8, 1.0, 3.0}) {
    Rng rng(7, "beta");
    const int n = 20000;
    double sum = 0, squares = 0;
    for (int i = 0; i < n; ++i) {
      const double x = beta_draw(alpha, rng);
      REQUIRE((x >= 0 && x <= 1));
      sum += x;
      squares += x * x;
    }
    const double mean = sum / n, variance = squares / n - mean * mean;
    CHECK(mean == Approx(0.5).margin(0.015));  // 4 deviations of the mean, or more
    CHECK(variance == Approx(1 / (4 * (2 * alpha + 1))).epsilon(0.05));
  }
  Rng rng(7, "beta");
  CHECK_THROWS_AS(beta_draw(0, rng), Error);
  const double tiny = beta_draw(1e-6, rng);
  CHECK((tiny >= 0 && tiny <= 1));
}

TEST_CASE("Mixup blends a row with its partner") {
  std::vector<float> rows = {1, 10, 3, 30, 5, 50};
  CHECK(mix_up(rows.data(), 3, 2, 0.75) == 0.75);
  CHECK(rows == std::vector<float>{2, 20, 3, 30, 4, 40});
  std::vector<float> same = {1, 10, 3, 30};
  mix_up(same.data(), 2, 2, 1);
  CHECK(same == std::vector<float>{1, 10, 3, 30});
}

TEST_CASE("Cutmix's share is the area that is left") {
  Rng rng(8, "cutmix");
  const int64_t rows = 4, channels = 3, height = 9, width = 13;
  bool cut = false, inside = false;
  for (int i = 0; i < 200; ++i) {
    std::vector<float> images(static_cast<size_t>(rows * channels * height * width));
    const int64_t values = channels * height * width;
    for (size_t at = 0; at < images.size(); ++at)
      images[at] = static_cast<float>(at / static_cast<size_t>(values));
    const double wanted = static_cast<double>(i % 10) / 10;
    const double share = cut_mix(images.data(), rows, channels, height, width, wanted, rng);
    for (int64_t row = 0; row < rows; ++row) {
      const auto begin = images.begin() + row * values;
      const auto own = std::count(begin, begin + values, static_cast<float>(row));
      REQUIRE(own + std::count(begin, begin + values, static_cast<float>(rows - 1 - row)) ==
              values);
      REQUIRE(static_cast<double>(own) / static_cast<double>(values) == Approx(share));
    }
    CHECK(share >= wanted - 1e-9);  // the rectangle is rounded down and cut at the border
    cut |= share > wanted + 0.2;
    inside |= share < wanted + 0.1;
  }
  CHECK(cut);
  CHECK(inside);
}

TEST_CASE("A batch is mixed by one of the two, or not at all") {
  std::vector<float> images(2 * 16);
  std::fill_n(images.begin() + 16, 16, 1.0f);
  Rng rng(9, "mix");
  const auto before = images;
  CHECK(mix_batch(images.data(), 2, 1, 4, 4, {}, rng) == 1);
  CHECK(images == before);
  int blended = 0;
  for (int i = 0; i < 400; ++i) {
    images = before;
    const double share = mix_batch(images.data(), 2, 1, 4, 4, {.mixup = 1, .cutmix = 1}, rng);
    const double own = 16 - std::accumulate(images.begin(), images.begin() + 16, 0.0);
    REQUIRE(own / 16 == Approx(share).margin(1e-5));
    blended += images[0] > 0 && images[0] < 1;
  }
  CHECK(std::abs(blended - 200) < 50);
}
