// Augmentation of images in training: small functions of an image and a random stream. The recipes
// are those of torchvision and timm (Apache 2.0), written anew.
#pragma once
#include <vector>

#include "core/rng.h"
#include "data/image.h"

namespace cbwc {

struct AugmentOptions {
  int64_t pad_crop = 0;  // pixels
  double crop_scale = 1, jitter = 0, erase = 0, mixup = 0, cutmix = 0, rand_magnitude = 9;
  bool flip = false;
  int64_t rand_ops = 0;
};

// A rectangle of scale to 1 of the area, aspect 3/4 to 4/3 (log-uniform), resized to size x size.
// After ten rectangles that do not fit: the largest central one of the nearest allowed aspect.
Image random_resized_crop(const Image& image, int64_t size, double scale, Rng& rng);
// Moved down and right; what comes in is black.
Image shift(const Image& image, int64_t down, int64_t right);
Image pad_crop(const Image& image, int64_t pad, Rng& rng);  // each shift uniform in -pad .. pad
Image flip(const Image& image);                             // left and right

// factor 1 changes nothing; 0 gives black, the mean grey, the grey image. Clamped to [0, 1].
void adjust_brightness(Image& image, double factor);
void adjust_contrast(Image& image, double factor);
void adjust_saturation(Image& image, double factor);  // nothing happens to one channel
// The three in random order, each factor uniform in 1 - strength .. 1 + strength.
void jitter(Image& image, double strength, Rng& rng);

// After normalisation: with this probability a rectangle of 2 % to 1/3 of the area, aspect 0.3 to
// 3.3, becomes standard normal noise.
void erase(Image& image, double probability, Rng& rng);

// Mixing row i of a batch (rows, channels, height, width) with row rows - 1 - i. Both return the
// share of the own image, for the loss.
double beta_draw(double alpha, Rng& rng);  // Beta(alpha, alpha)
double mix_up(float* images, int64_t rows, int64_t values, double share);
// A rectangle of 1 - share of the area around a uniform centre, cut at the border, is pasted; the
// share returned is that of the pixels left.
double cut_mix(float* images, int64_t rows, int64_t channels, int64_t height, int64_t width,
               double share, Rng& rng);
// Either of them, or neither (1), as the options say.
double mix_batch(float* images, int64_t rows, int64_t channels, int64_t height, int64_t width,
                 const AugmentOptions& options, Rng& rng);

}  // namespace cbwc
