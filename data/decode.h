// Decoding of JPEG and PNG files in memory, told apart by their first bytes.
// JPEG: grey, YCbCr or RGB, CMYK and YCCK (Adobe's inverted ones too). PNG: any colour type and
// depth; 16 bits become 8; transparent parts are blended on white. Grey and palette become RGB when
// three channels are wanted; colours become luminance when one is.
#pragma once
#include <cstdint>
#include <vector>

#include "data/image.h"

namespace cbwc {

// Error (without the file's name, which the caller knows): empty, neither JPEG nor PNG, cut short,
// damaged, more than 2^27 pixels. Prints nothing. EXIF orientation is not applied (nor does
// torchvision).
Image decode_image(const std::vector<uint8_t>& bytes, int64_t channels);

// 8-bit interleaved pixels of one or three channels. Private to decode*.cpp.
struct DecodedPixels {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> values;
};
inline constexpr int64_t kMostPixels = int64_t{1} << 27;
DecodedPixels decode_jpeg(const std::vector<uint8_t>& bytes);
DecodedPixels decode_png(const std::vector<uint8_t>& bytes);

}  // namespace cbwc
