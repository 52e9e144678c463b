// RandAugment (Cubuk et al., 2019) with timm's list and its "increasing" strengths (rand-mM-inc1).
#pragma once
#include <string>
#include <vector>

#include "core/rng.h"
#include "data/image.h"

namespace cbwc {

// With m = magnitude / 10 (0 to 1), and a random sign where there is a +-:
//   autocontrast, equalize, invert      no strength
//   rotate                              +-30 m degrees about the centre
//   posterize                           4 - int(4 m) bits are kept
//   solarize                            pixels from 256 - int(256 m) on are inverted
//   solarize_add                        int(110 m) is added to pixels below 128
//   color, contrast, brightness, sharpness   factor 1 +- 0.9 m, at least 0.1
//   shear_x, shear_y                    +-0.3 m
//   translate_x, translate_y            +-0.45 m of the width, height
// Moving is bilinear; what comes in from outside has the colour `fill` (one value a channel).
const std::vector<std::string>& rand_augment_ops();

// One op with its sign given (+1, -1).
void apply_rand_op(Image& image, const std::string& op, double magnitude, int sign,
                   const std::vector<double>& fill);
// `count` ops drawn with replacement, each applied with probability 1/2.
void rand_augment(Image& image, int64_t count, double magnitude, const std::vector<double>& fill,
                  Rng& rng);

}  // namespace cbwc
