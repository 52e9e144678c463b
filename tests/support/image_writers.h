// Images written by libjpeg and libpng themselves, for the decoders' tests.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cbwc::testing {

enum class JpegColors { grey, ycbcr, rgb, cmyk, ycck };

// Interleaved 8-bit pixels (1, 3 or 4 channels as the colours say), quality 100, no subsampling.
// `adobe`: with Adobe's marker; libjpeg then writes what it is given, so CMYK must come inverted.
std::string write_jpeg(const std::vector<uint8_t>& pixels, int height, int width, JpegColors colors,
                       bool adobe);

struct PngKind {
  int color_type = 0, depth = 8;            // libpng's PNG_COLOR_TYPE_...
  std::vector<uint8_t> palette = {};        // r, g, b, ...
  std::vector<uint8_t> palette_alpha = {};  // tRNS of the first entries
  int transparent_grey = -1;                // tRNS of a grey image
  bool interlaced = false;
};
// rows: packed as PNG stores them (16 bits big-endian, less than 8 from the high bits on).
std::string write_png(const std::vector<std::string>& rows, int width, const PngKind& kind);

}  // namespace cbwc::testing
