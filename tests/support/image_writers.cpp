#include "tests/support/image_writers.h"

#include <cstdio>  // jpeglib.h needs it first

#include <jpeglib.h>
#include <png.h>

#include <cstdlib>

#include "core/check.h"

namespace cbwc::testing {
namespace {

J_COLOR_SPACE stored_space(JpegColors colors) {
  switch (colors) {
    case JpegColors::grey:
      return JCS_GRAYSCALE;
    case JpegColors::ycbcr:
      return JCS_YCbCr;
    case JpegColors::rgb:
      return JCS_RGB;
    case JpegColors::cmyk:
      return JCS_CMYK;
    default:
      return JCS_YCCK;
  }
}

}  // namespace

std::string write_jpeg(const std::vector<uint8_t>& pixels, int height, int width, JpegColors colors,
                       bool adobe) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  const bool four = colors == JpegColors::cmyk || colors == JpegColors::ycck;
  info.input_components = four ? 4 : colors == JpegColors::grey ? 1 : 3;
  info.in_color_space = four ? JCS_CMYK : colors == JpegColors::grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, stored_space(colors));
  jpeg_set_quality(&info, 100, TRUE);
  for (int c = 0; c < info.num_components; ++c)
    info.comp_info[c].h_samp_factor = info.comp_info[c].v_samp_factor = 1;
  info.write_Adobe_marker = adobe;
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row =
        const_cast<uint8_t*>(pixels.data()) +
        size_t{info.next_scanline} * info.image_width * static_cast<size_t>(info.input_components);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string out(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return out;
}

std::string write_png(const std::vector<std::string>& rows, int width, const PngKind& kind) {
  png_structp png = png_create_write_struct(
      PNG_LIBPNG_VER_STRING, nullptr,
      [](png_structp, png_const_charp message) { throw Error(message); }, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string out;
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep data, size_t n) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), n);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(rows.size()),
               kind.depth, kind.color_type,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (size_t i = 0; i + 2 < kind.palette.size(); i += 3)
    palette.push_back({kind.palette[i], kind.palette[i + 1], kind.palette[i + 2]});
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  if (!kind.palette_alpha.empty())
    png_set_tRNS(png, info, kind.palette_alpha.data(), static_cast<int>(kind.palette_alpha.size()),
                 nullptr);
  if (kind.transparent_grey >= 0) {
    png_color_16 grey{};
    grey.gray = static_cast<png_uint_16>(kind.transparent_grey);
    png_set_tRNS(png, info, nullptr, 0, &grey);
  }
  png_write_info(png, info);
  std::vector<png_bytep> pointers;
  for (const std::string& row : rows)
    pointers.push_back(reinterpret_cast<png_bytep>(const_cast<char*>(row.data())));
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

}  // namespace cbwc::testing
