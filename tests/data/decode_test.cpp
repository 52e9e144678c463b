#include "data/decode.h"

#include <fcntl.h>
#include <png.h>
#include <unistd.h>

#include <algorithm>

#include "data/image_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"
#include "tests/support/fixture.h"
#include "tests/support/image_writers.h"

using namespace cbwc;
using testing::JpegColors;
using testing::message_of;
using testing::PngKind;

namespace {

constexpr double kExact = 1e-6;                 // float32 of n / 255
constexpr double kJpeg = 3.0 / 255 + kExact;    // quality 100: the transform and colours round
constexpr double kPillow = 2.0 / 255 + kExact;  // another libjpeg-turbo: chroma may round otherwise
constexpr double kResize = 1.0 / 255 + kExact;  // Pillow rounds twice, we do not
// The first rounding goes through weights of up to 1.25 in all without their signs.
constexpr double kBicubic = (0.5 + 0.5 * 1.25) / 255 + kExact;

std::vector<uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

Image decode(const std::string& bytes, int64_t channels = 3) {
  return decode_image(to_bytes(bytes), channels);
}

double largest_difference(const Image& image, const Tensor& pixels) {
  REQUIRE(pixels.shape() == Shape{image.channels, image.height, image.width});
  double most = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i)
    most = std::max(most, std::abs(image.pixels[i] - pixels.data<double>()[i] / 255));
  return most;
}

// Each pixel as one colour; 8 x 8 blocks of one colour survive JPEG.
void check_color(const Image& image, int64_t y, int64_t x, std::array<int, 3> rgb, double within) {
  for (int64_t c = 0; c < 3; ++c)
    CHECK(std::abs(image.at(c, y, x) - rgb[static_cast<size_t>(c)] / 255.0) <= within);
}

// 16 x 24: six blocks of 8 x 8, block b filled with colors[b].
std::vector<uint8_t> blocks(const std::vector<std::vector<uint8_t>>& colors) {
  std::vector<uint8_t> pixels;
  for (size_t y = 0; y < 16; ++y)
    for (size_t x = 0; x < 24; ++x) {
      const auto& color = colors[y / 8 * 3 + x / 8];
      pixels.insert(pixels.end(), color.begin(), color.end());
    }
  return pixels;
}

const std::vector<std::vector<uint8_t>> kCmyk = {{0, 0, 0, 0},      {255, 0, 0, 0},
                                                 {0, 255, 0, 0},    {0, 0, 255, 51},
                                                 {100, 150, 30, 0}, {10, 20, 30, 255}};

void check_cmyk(const Image& image) {
  REQUIRE(image.pixels.size() == 3 * 16 * 24);
  for (size_t b = 0; b < kCmyk.size(); ++b) {
    std::array<int, 3> rgb{};
    for (size_t c = 0; c < 3; ++c) rgb[c] = (255 - kCmyk[b][c]) * (255 - kCmyk[b][3]) / 255;
    check_color(image, static_cast<int64_t>(8 * (b / 3) + 4), static_cast<int64_t>(8 * (b % 3) + 3),
                rgb, kJpeg);
  }
}

std::string good_jpeg(int seed) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < 40 * 56 * 3; ++i)
    pixels.push_back(static_cast<uint8_t>(i * (seed + 7) % 251));
  return testing::write_jpeg(pixels, 40, 56, JpegColors::ycbcr, false);
}

std::string good_png() {
  std::vector<std::string> rows(40, std::string(56, '\x80'));
  for (size_t y = 0; y < 40; ++y)
    for (size_t x = 0; x < 56; ++x) rows[y][x] = static_cast<char>(x * y * 37);
  return testing::write_png(rows, 56, {.color_type = PNG_COLOR_TYPE_GRAY, .depth = 8});
}

// What f writes to stderr.
template <class F>
std::string stderr_of(const F& f) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("stderr");
  const int saved = ::dup(2), file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
  ::dup2(file, 2);
  f();
  ::dup2(saved, 2);
  ::close(saved);
  ::close(file);
  return testing::read_bytes(path);
}

}  // namespace

TEST_CASE("Images are decoded as Pillow decodes them") {
  for (const std::string name : {"jpeg_420", "jpeg_444", "jpeg_progressive", "jpeg_grey",
                                 "jpeg_cmyk", "png_rgb", "png_palette", "png_1bit"}) {
    CAPTURE(name);
    const Tensor stored = testing::read_fixture("images.h5", "decode/" + name + "/bytes");
    std::vector<uint8_t> bytes;
    for (int64_t i = 0; i < stored.numel(); ++i)
      bytes.push_back(static_cast<uint8_t>(stored.data<double>()[i]));
    const Image image = decode_image(bytes, 3);
    const Tensor pixels = testing::read_fixture("images.h5", "decode/" + name + "/pixels");
    CHECK(largest_difference(image, pixels) <= (name[0] == 'p' ? kExact : kPillow));
  }
}

TEST_CASE("Resizing is Pillow's bilinear and bicubic") {
  for (const std::string from : {"29x37", "50x41", "64x20"})
    for (const std::string to : {"16x16", "64x80", "29x24", "7x90", "3x2"}) {
      const std::string name = "resize/" + from + "_to_" + to;
      const Tensor in = testing::read_fixture("images.h5", name + "/in");
      const Tensor out = testing::read_fixture("images.h5", name + "/out"),
                   bicubic = testing::read_fixture("images.h5", name + "/bicubic");
      Image image = Image::zeros(in.size(0), in.size(1), in.size(2));
      for (size_t i = 0; i < image.pixels.size(); ++i)
        image.pixels[i] = static_cast<float>(in.data<double>()[i] / 255);
      CAPTURE(name);
      const Image resized = resize(image, out.size(1), out.size(2));
      CHECK(largest_difference(resized, out) <= kResize);
      const Image sharper = resize(image, out.size(1), out.size(2), ResizeFilter::bicubic);
      CHECK(largest_difference(sharper, bicubic) <= kBicubic);
      CHECK(largest_difference(sharper, out) > kResize);
      // Negative control: plain sampling is further off wherever the image shrinks.
      if (to == "3x2")
        CHECK(largest_difference(resize(crop(image, 0, 0, 20, 20), 3, 2), out) > kResize);
    }
}

TEST_CASE("Bicubic weights do not reach beyond black and white") {
  Image edge = Image::zeros(1, 8, 8);
  for (int64_t y = 0; y < 8; ++y)
    for (int64_t x = 4; x < 8; ++x) edge.at(0, y, x) = 1;
  for (const auto& [height, width] : {std::pair(8, 24), std::pair(24, 8), std::pair(24, 24)}) {
    const Image larger = resize(edge, height, width, ResizeFilter::bicubic);
    const auto [least, most] = std::minmax_element(larger.pixels.begin(), larger.pixels.end());
    CHECK(*least == 0);
    CHECK(*most == 1);
  }
}

TEST_CASE("P63: JPEG in every colour space becomes three channels") {
  const std::vector<std::vector<uint8_t>> colors = {{255, 0, 0},     {0, 255, 0},   {0, 0, 255},
                                                    {255, 255, 255}, {10, 200, 90}, {0, 0, 0}};
  for (const JpegColors kind : {JpegColors::ycbcr, JpegColors::rgb}) {
    const Image image =
        decode(testing::write_jpeg(blocks(colors), 16, 24, kind, kind == JpegColors::rgb));
    REQUIRE(image.channels == 3);
    for (size_t b = 0; b < colors.size(); ++b)
      check_color(image, static_cast<int64_t>(8 * (b / 3) + 4),
                  static_cast<int64_t>(8 * (b % 3) + 4), {colors[b][0], colors[b][1], colors[b][2]},
                  kJpeg);
  }
  const Image grey = decode(testing::write_jpeg(blocks({{0}, {50}, {100}, {150}, {200}, {255}}), 16,
                                                24, JpegColors::grey, false));
  REQUIRE(grey.channels == 3);
  check_color(grey, 4, 20, {100, 100, 100}, kJpeg);
  check_color(grey, 12, 20, {255, 255, 255}, kJpeg);
  // CMYK as it is meant, and inverted with Adobe's marker.
  auto inverted = kCmyk;
  for (auto& color : inverted)
    for (uint8_t& ink : color) ink = static_cast<uint8_t>(255 - ink);
  check_cmyk(decode(testing::write_jpeg(blocks(kCmyk), 16, 24, JpegColors::cmyk, false)));
  check_cmyk(decode(testing::write_jpeg(blocks(inverted), 16, 24, JpegColors::cmyk, true)));
  check_cmyk(decode(testing::write_jpeg(blocks(inverted), 16, 24, JpegColors::ycck, true)));
  const Image one = decode(testing::write_jpeg(blocks(colors), 16, 24, JpegColors::rgb, true), 1);
  REQUIRE(one.channels == 1);
  CHECK(std::abs(one.at(0, 4, 4) - 0.299) <= kJpeg);
}

TEST_CASE("P63: PNG of every kind becomes three channels of 8 bits") {
  using Rows = std::vector<std::string>;
  const auto first = [](const Rows& rows, const PngKind& kind) {
    return decode(testing::write_png(rows, 2, kind));
  };
  const Image one = first({std::string("\x40")}, {.color_type = PNG_COLOR_TYPE_GRAY, .depth = 1});
  check_color(one, 0, 0, {0, 0, 0}, kExact);
  check_color(one, 0, 1, {255, 255, 255}, kExact);
  const Image two = first({std::string("\x60")}, {.color_type = PNG_COLOR_TYPE_GRAY, .depth = 2});
  check_color(two, 0, 0, {85, 85, 85}, kExact);
  check_color(two, 0, 1, {170, 170, 170}, kExact);
  // 16 bits are scaled and rounded: 0x8100 is 128.498, not 129.
  const Image deep =
      first({std::string("\x81\0\xFF\xFF", 4)}, {.color_type = PNG_COLOR_TYPE_GRAY, .depth = 16});
  check_color(deep, 0, 0, {128, 128, 128}, kExact);
  check_color(deep, 0, 1, {255, 255, 255}, kExact);
  const Image deep_rgb = first({std::string("\x10\0\x20\0\x30\0\xFF\xFF\0\0\x7F\x80", 12)},
                               {.color_type = PNG_COLOR_TYPE_RGB, .depth = 16});
  check_color(deep_rgb, 0, 0, {16, 32, 48}, kExact);
  check_color(deep_rgb, 0, 1, {255, 0, 127}, kExact);
  // Half transparent red on white, and what is fully transparent is white whatever lies below.
  const Image alpha = first({std::string("\xFF\0\0\x80\x12\x34\x56\0", 8)},
                            {.color_type = PNG_COLOR_TYPE_RGB_ALPHA, .depth = 8});
  check_color(alpha, 0, 0, {255, 127, 127}, kExact);
  check_color(alpha, 0, 1, {255, 255, 255}, kExact);
  const Image grey_alpha = first({std::string("\0\x40\x64\xFF", 4)},
                                 {.color_type = PNG_COLOR_TYPE_GRAY_ALPHA, .depth = 8});
  check_color(grey_alpha, 0, 0, {191, 191, 191}, kExact);
  check_color(grey_alpha, 0, 1, {100, 100, 100}, kExact);
  const Image palette = first({std::string("\x10")}, {.color_type = PNG_COLOR_TYPE_PALETTE,
                                                      .depth = 4,
                                                      .palette = {9, 8, 7, 200, 100, 50},
                                                      .palette_alpha = {0}});
  check_color(palette, 0, 0, {200, 100, 50}, kExact);
  check_color(palette, 0, 1, {255, 255, 255}, kExact);
  const Image key = first({std::string("\x07\x08")},
                          {.color_type = PNG_COLOR_TYPE_GRAY, .depth = 8, .transparent_grey = 7});
  check_color(key, 0, 0, {255, 255, 255}, kExact);
  check_color(key, 0, 1, {8, 8, 8}, kExact);
  Rows rows(9);
  for (size_t y = 0; y < 9; ++y) rows[y] = {static_cast<char>(20 * y), static_cast<char>(9 * y)};
  const Image interlaced =
      first(rows, {.color_type = PNG_COLOR_TYPE_GRAY, .depth = 8, .interlaced = true});
  for (int y = 0; y < 9; ++y) check_color(interlaced, y, 1, {9 * y, 9 * y, 9 * y}, kExact);
}

TEST_CASE("P63: what is no whole image is an error, and prints nothing") {
  const std::string jpeg = good_jpeg(1), png = good_png();
  CHECK(decode(jpeg).width == 56);
  CHECK(decode(png).height == 40);
  const std::string noise = stderr_of([&] {
    CHECK(message_of<Error>([&] { decode(""); }) == "an empty file, not an image");
    CHECK(message_of<Error>([&] { decode("GIF89a......"); }) == "neither a JPEG nor a PNG image");
    for (const std::string& whole : {jpeg, png})
      for (const size_t part : {2, 5, 20, 50, 90, 98})
        CHECK_THROWS_AS(decode(whole.substr(0, whole.size() * part / 100)), Error);
    CHECK_THROWS_AS(decode(jpeg.substr(0, jpeg.size() / 2) + png), Error);
    std::string flipped = png;
    flipped[png.size() / 2] ^= 16;  // caught by the chunk's CRC
    CHECK_THROWS_AS(decode(flipped), Error);
    std::string huge = png;  // a header that claims 2^31 - 1 rows
    huge.replace(20, 4, "\x7F\xFF\xFF\xFF");
    CHECK_THROWS_AS(decode(huge), Error);
    // Any damage gives an image or an Error, never a crash.
    for (size_t i = 0; i < jpeg.size(); i += 7) {
      std::string damaged = jpeg;
      damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
      try {
        decode(damaged);
      } catch (const Error&) {
      }
    }
  });
  CHECK(noise == "");
}

TEST_CASE("P63: a bad image ends the run with its path and number, or is skipped and counted") {
  const testing::TemporaryFolder folder;
  std::vector<std::string> files;
  for (int i = 0; i < 12; ++i) files.push_back(i % 2 ? good_jpeg(i) : good_png());
  files[4] = "";
  files[7] = files[7].substr(0, files[7].size() / 2);
  files[9] = "text";
  std::array<ImageSource, 3> sources;
  for (size_t i = 0; i < files.size(); ++i) {
    sources[0].labels.push_back(static_cast<int32_t>(i));
    sources[0].sizes.push_back(std::ssize(files[i]));
    sources[0].names.push_back("/photos/" + std::to_string(i) + ".jpg");
  }
  sources[0].read = [&](int64_t i) { return files[static_cast<size_t>(i)]; };
  sources[1] = sources[0];
  sources[1].labels = {0};
  sources[1].sizes = {0};
  sources[1].names = {"/photos/none.jpg"};
  sources[1].read = [](int64_t) { return std::string(); };
  ImageFileInfo info;
  info.encoded = true;
  for (int c = 0; c < 12; ++c) info.classes.push_back(std::string(1, static_cast<char>('a' + c)));
  info.mean = {0.5, 0.5, 0.5};
  info.deviation = {0.25, 0.25, 0.25};
  const std::string path = folder.file("images.h5");
  write_image_file(path, info, sources);
  const ImageFile file = ImageFile::open(path);
  const ImageSamples strict(file, "train", {.size = 16});
  CHECK(strict.eval_batch({0, 1}).images.shape() == Shape{2, 3, 16, 16});
  CHECK(message_of<Error>([&] {
          strict.eval_batch({3, 4});
        }) == "/photos/4.jpg (train image 4 of " + path + "): an empty file, not an image");
  const std::string cut = message_of<Error>([&] { strict.eval_batch({7}); });
  CHECK(cut.find("/photos/7.jpg (train image 7 of") == 0);
  CHECK(cut.find("cannot be decoded as JPEG") != std::string::npos);
  const auto lenient = std::make_shared<ImageSamples>(
      file, "train",
      ImageOptions{.size = 16, .augment = {.mixup = 1}, .bad_images = BadImages::skip});
  const auto split = split_of(lenient);
  auto stream = split->stream({.batch_size = 12, .seed = 3, .prefetch = 3, .workers = 2});
  for (int epoch = 0; epoch < 3; ++epoch) {
    const Batch batch = stream->next();
    CHECK(batch.images.shape() == Shape{9, 3, 16, 16});
    auto labels = batch.targets.to_vector<int32_t>();
    auto mixed = batch.mixed_targets.to_vector<int32_t>();
    std::reverse(mixed.begin(), mixed.end());
    CHECK(mixed == labels);
    std::sort(labels.begin(), labels.end());
    CHECK(labels == std::vector<int32_t>{0, 1, 2, 3, 5, 6, 8, 10, 11});
  }
  CHECK(lenient->skipped() == std::vector<int64_t>{4, 7, 9});
  CHECK(lenient->skipped_images().size() == 3);
  CHECK_THROWS_AS(lenient->eval_batch({4, 9}), Error);
  CHECK_THROWS_AS(ImageSamples(file, "train", {}), Error);  // encoded needs a size
  CHECK_THROWS_AS(parse_bad_images("warn"), Error);
}

TEST_CASE("Evaluation cuts the middle of an image whose shorter side is size * 256 / 224") {
  Image wide = Image::zeros(1, 40, 101);
  const Image resized = resize_shorter(wide, 32);
  CHECK(resized.height == 32);
  CHECK(resized.width == 80);  // 80.8 rounded down
  Image tall = Image::zeros(1, 9, 4);
  CHECK(resize_shorter(tall, 8).height == 18);
  for (int64_t y = 0; y < 9; ++y)
    for (int64_t x = 0; x < 4; ++x) tall.at(0, y, x) = static_cast<float>(10 * y + x);
  const Image middle = centre_crop(tall, 3);  // (9 - 3) / 2 = 3, (4 - 3) / 2 = 0.5 to 0
  CHECK(middle.at(0, 0, 0) == 30);
  CHECK(middle.at(0, 2, 2) == 52);
  CHECK_THROWS_AS(centre_crop(tall, 5), Error);
}
