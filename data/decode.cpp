#include "data/decode.h"

#include <algorithm>
#include <array>

#include "core/check.h"
#include "data/augment_blend.h"

namespace cbwc {
namespace {

constexpr std::array<uint8_t, 3> kJpegMagic = {0xFF, 0xD8, 0xFF};
constexpr std::array<uint8_t, 8> kPngMagic = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

template <size_t N>
bool starts_with(const std::vector<uint8_t>& bytes, const std::array<uint8_t, N>& magic) {
  return bytes.size() >= N && std::equal(magic.begin(), magic.end(), bytes.begin());
}

}  // namespace

Image decode_image(const std::vector<uint8_t>& bytes, int64_t channels) {
  CBWC_CHECK(channels == 1 || channels == 3, "decode: ", channels, " channels; expected 1 or 3");
  CBWC_CHECK(!bytes.empty(), "an empty file, not an image");
  const bool jpeg = starts_with(bytes, kJpegMagic);
  CBWC_CHECK(jpeg || starts_with(bytes, kPngMagic), "neither a JPEG nor a PNG image");
  const DecodedPixels pixels = jpeg ? decode_jpeg(bytes) : decode_png(bytes);
  Image image =
      Image::from_interleaved(pixels.values.data(), pixels.channels, pixels.height, pixels.width);
  if (image.channels == channels) return image;
  if (channels == 1) return {1, image.height, image.width, grey_plane(image)};
  Image three = Image::zeros(3, image.height, image.width);
  for (int64_t c = 0; c < 3; ++c)
    std::copy(image.pixels.begin(), image.pixels.end(), three.plane(c));
  return three;
}

}  // namespace cbwc
