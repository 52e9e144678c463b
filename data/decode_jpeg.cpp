#include <cstdio>  // jpeglib.h needs it first

#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>

#include "core/check.h"
#include "data/decode.h"

namespace cbwc {
namespace {

// libjpeg's errors leave by longjmp, over C frames only: what owns memory lives outside.
struct Decoder {
  jpeg_error_mgr errors{};  // first: libjpeg hands a pointer to it to the functions below
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = {};
  jpeg_decompress_struct info{};
  DecodedPixels pixels;
  std::vector<uint8_t> line;
};

[[noreturn]] void leave(j_common_ptr info) {
  auto& decoder = *reinterpret_cast<Decoder*>(info->err);
  info->err->format_message(info, decoder.message);
  std::longjmp(decoder.jump, 1);
}

// libjpeg only warns of missing data and fills them with grey. Harmless oddities pass.
void warn(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE) leave(info);
}

// Adobe writes CMYK inverted: 255 is no ink.
void cmyk_to_rgb(const uint8_t* from, int64_t width, bool inverted, uint8_t* to) {
  for (int64_t x = 0; x < width; ++x) {
    const int black = inverted ? from[4 * x + 3] : 255 - from[4 * x + 3];
    for (int64_t c = 0; c < 3; ++c) {
      const int ink = inverted ? from[4 * x + c] : 255 - from[4 * x + c];
      to[3 * x + c] = static_cast<uint8_t>((ink * black + 127) / 255);
    }
  }
}

void read_lines(Decoder& d) {
  const auto width = static_cast<int64_t>(d.info.output_width);
  const bool four = d.info.output_components == 4;
  while (d.info.output_scanline < d.info.output_height) {
    uint8_t* row =
        d.pixels.values.data() + int64_t{d.info.output_scanline} * width * d.pixels.channels;
    JSAMPROW target = four ? d.line.data() : row;
    jpeg_read_scanlines(&d.info, &target, 1);
    if (four) cmyk_to_rgb(d.line.data(), width, d.info.saw_Adobe_marker, row);
  }
}

// False when libjpeg gave up; its reason is in d.message.
bool decode(Decoder& d, const std::vector<uint8_t>& bytes) {
  if (setjmp(d.jump)) return false;
  jpeg_create_decompress(&d.info);
  jpeg_mem_src(&d.info, bytes.data(), static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&d.info, TRUE);
  const J_COLOR_SPACE stored = d.info.jpeg_color_space;
  const bool four = stored == JCS_CMYK || stored == JCS_YCCK;
  d.info.out_color_space = four ? JCS_CMYK : stored == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
  d.pixels.channels = stored == JCS_GRAYSCALE ? 1 : 3;
  d.pixels.height = d.info.image_height;
  d.pixels.width = d.info.image_width;
  if (d.pixels.height * d.pixels.width > kMostPixels) ERREXIT(&d.info, JERR_IMAGE_TOO_BIG);
  d.pixels.values.resize(static_cast<size_t>(d.pixels.height * d.pixels.width * d.pixels.channels));
  if (four) d.line.resize(static_cast<size_t>(4 * d.pixels.width));
  jpeg_start_decompress(&d.info);
  read_lines(d);
  jpeg_finish_decompress(&d.info);
  return true;
}

}  // namespace

DecodedPixels decode_jpeg(const std::vector<uint8_t>& bytes) {
  Decoder decoder;
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = leave;
  decoder.errors.emit_message = warn;
  const bool done = decode(decoder, bytes);
  jpeg_destroy_decompress(&decoder.info);
  CBWC_CHECK(done, "cannot be decoded as JPEG: ", decoder.message);
  return std::move(decoder.pixels);
}

}  // namespace cbwc
