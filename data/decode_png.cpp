#include <png.h>

#include <cstring>

#include "core/check.h"
#include "data/decode.h"

namespace cbwc {
namespace {

// libpng's errors leave by longjmp, over C frames only: what owns memory lives outside.
struct Decoder {
  const std::vector<uint8_t>* bytes = nullptr;
  size_t at = 0;
  std::string message;
  png_structp png = nullptr;
  png_infop info = nullptr;
  int64_t height = 0, width = 0, stored = 0;  // stored: channels with alpha
  std::vector<uint8_t> values;
  std::vector<png_bytep> rows;
};

[[noreturn]] void leave(png_structp png, png_const_charp message) {
  static_cast<Decoder*>(png_get_error_ptr(png))->message = message;
  png_longjmp(png, 1);
}

void quiet(png_structp, png_const_charp) {}

void read(png_structp png, png_bytep out, size_t count) {
  auto& decoder = *static_cast<Decoder*>(png_get_io_ptr(png));
  if (decoder.bytes->size() - decoder.at < count) png_error(png, "cut short");
  std::memcpy(out, decoder.bytes->data() + decoder.at, count);
  decoder.at += count;
}

// Every kind to 8-bit grey or RGB, with alpha where there is transparency.
bool decode(Decoder& d) {
  if (setjmp(png_jmpbuf(d.png))) return false;
  png_set_read_fn(d.png, &d, read);
  png_read_info(d.png, d.info);
  d.height = png_get_image_height(d.png, d.info);
  d.width = png_get_image_width(d.png, d.info);
  if (d.height * d.width > kMostPixels) png_error(d.png, "too many pixels");
  png_set_expand(d.png);
  png_set_scale_16(d.png);
  png_set_interlace_handling(d.png);
  png_read_update_info(d.png, d.info);
  d.stored = png_get_channels(d.png, d.info);
  d.values.resize(static_cast<size_t>(d.height * d.width * d.stored));
  d.rows.resize(static_cast<size_t>(d.height));
  for (int64_t y = 0; y < d.height; ++y)
    d.rows[static_cast<size_t>(y)] = d.values.data() + y * d.width * d.stored;
  png_read_image(d.png, d.rows.data());
  png_read_end(d.png, nullptr);
  return true;
}

DecodedPixels on_white(Decoder& d) {
  if (d.stored % 2 == 1) return {d.stored, d.height, d.width, std::move(d.values)};
  const int64_t channels = d.stored - 1;
  DecodedPixels pixels{channels, d.height, d.width, {}};
  pixels.values.reserve(static_cast<size_t>(d.height * d.width * channels));
  for (int64_t i = 0; i < d.height * d.width; ++i) {
    const uint8_t* from = d.values.data() + i * d.stored;
    const int alpha = from[channels];
    for (int64_t c = 0; c < channels; ++c)
      pixels.values.push_back(
          static_cast<uint8_t>((from[c] * alpha + 255 * (255 - alpha) + 127) / 255));
  }
  return pixels;
}

}  // namespace

DecodedPixels decode_png(const std::vector<uint8_t>& bytes) {
  Decoder decoder;
  decoder.bytes = &bytes;
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, leave, quiet);
  if (decoder.png) decoder.info = png_create_info_struct(decoder.png);
  const bool done = decoder.info && decode(decoder);
  png_destroy_read_struct(&decoder.png, &decoder.info, nullptr);
  CBWC_CHECK(done, "cannot be decoded as PNG: ", decoder.message);
  return on_white(decoder);
}

}  // namespace cbwc
