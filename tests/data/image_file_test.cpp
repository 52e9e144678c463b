#include "data/image_file.h"

#include <sys/wait.h>

#include <numeric>

#include "data/idx_file.h"
#include "data/image_datasets.h"
#include "data/image_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

namespace {

ImageFileInfo raw_info() {
  return {.encoded = false,
          .channels = 1,
          .height = 2,
          .width = 3,
          .classes = {"cat", "dog"},
          .mean = {0.5},
          .deviation = {0.25},
          .description = "made up"};
}

// Image i of split s has the bytes 40 s + 6 i + 0 .. 5.
std::array<ImageSource, 3> raw_sources() {
  std::array<ImageSource, 3> sources;
  for (size_t s = 0; s < 3; ++s) {
    const size_t count = 5 - 2 * s;
    sources[s].sizes.assign(count, 6);
    for (size_t i = 0; i < count; ++i) sources[s].labels.push_back(static_cast<int32_t>(i % 2));
    sources[s].read = [s](int64_t i) {
      std::string bytes(6, '\0');
      std::iota(bytes.begin(), bytes.end(), static_cast<char>(40 * s + 6 * static_cast<size_t>(i)));
      return bytes;
    };
  }
  return sources;
}

// Encoded files of sizes 0, 1000, 2000, ...; long names that are no fixed-length strings.
std::array<ImageSource, 3> encoded_sources() {
  std::array<ImageSource, 3> sources;
  for (int i = 0; i < 4000; ++i) {
    sources[0].labels.push_back(i % 2);
    sources[0].sizes.push_back(1000 * (i % 5));
    sources[0].names.push_back(std::string(static_cast<size_t>(i % 40), 'n') + std::to_string(i));
  }
  sources[0].read = [](int64_t i) {
    return std::string(static_cast<size_t>(1000 * (i % 5)), static_cast<char>(i));
  };
  return sources;
}

ImageFileInfo encoded_info() {
  ImageFileInfo info = raw_info();
  info.encoded = true;
  info.channels = 3;
  info.height = info.width = 0;
  info.mean = info.deviation = {0.5, 0.4, 0.3};
  return info;
}

}  // namespace

TEST_CASE("A raw image file gives back what was written") {
  const TemporaryFolder folder;
  const std::string path = folder.file("raw.h5");
  write_image_file(path, raw_info(), raw_sources());
  const ImageFile file = ImageFile::open(path);
  CHECK(ImageFile::is_one(path));
  CHECK(file.info().classes == std::vector<std::string>{"cat", "dog"});
  CHECK(file.info().mean == std::vector<double>{0.5});
  CHECK(file.info().description == "made up");
  CHECK(file.split("train")->size() == 5);
  CHECK(file.split("val")->size() == 3);
  CHECK(file.split("test")->size() == 1);
  CHECK(file.split("val")->bytes(2) == std::vector<uint8_t>{52, 53, 54, 55, 56, 57});
  CHECK(file.split("val")->label(1) == 1);
  CHECK(file.split("train")->where(4) == "train image 4 of " + path);
  CHECK_THROWS_AS(file.split("train")->bytes(5), Error);
  CHECK_THROWS_AS(file.split("dev"), Error);
  const std::string before = file.checksum();
  ImageFileInfo other = raw_info();
  other.mean = {0.51};
  write_image_file(path, other, raw_sources());
  CHECK(ImageFile::open(path).checksum() != before);
}

TEST_CASE("An encoded image file is read image by image") {
  const TemporaryFolder folder;
  const std::string path = folder.file("encoded.h5");
  write_image_file(path, encoded_info(), encoded_sources());
  const ImageFile file = ImageFile::open(path);
  const auto train = file.split("train");
  REQUIRE(train->size() == 4000);
  CHECK(file.split("val")->size() == 0);
  for (const int64_t i : {3999, 0, 1, 77, 2048})
    CHECK(train->bytes(i) ==
          std::vector<uint8_t>(static_cast<size_t>(1000 * (i % 5)), static_cast<uint8_t>(i)));
  CHECK(train->where(42) == "nn42 (train image 42 of " + path + ")");
  // The file may be replaced while it is open.
  write_image_file(path, raw_info(), raw_sources());
  CHECK(train->bytes(4)[3999] == 4);
}

TEST_CASE("P62: a damaged image file is named, an encoded one at the image") {
  const TemporaryFolder folder;
  const std::string path = folder.file("images.h5");
  const auto opening = [&] { return message_of<Error>([&] { ImageFile::open(path); }); };
  write_image_file(path, encoded_info(), encoded_sources());
  const std::string whole = read_bytes(path);
  write_bytes(path, whole.substr(0, whole.size() / 2));
  CHECK(opening().find("cut at") != std::string::npos);
  // One byte within the pixels of image 3 (1000 bytes of 0x01 lie before, 2000 of 0x02).
  const size_t at = whole.find(std::string(3000, '\x03'));
  REQUIRE(at != std::string::npos);
  std::string damaged = whole;
  damaged[at + 10] ^= 1;
  write_bytes(path, damaged);
  const ImageFile file = ImageFile::open(path);
  CHECK_NOTHROW(file.split("train")->bytes(2));
  CHECK(message_of<Error>([&] { file.split("train")->bytes(3); }) ==
        "nnn3 (train image 3 of " + path + "): damaged: its bytes do not match their checksum");
  // A writer that died before the seal.
  write_bytes(path, std::string(512, '\0') + whole.substr(512));
  CHECK(opening().find("its writer died") != std::string::npos);
  write_bytes(path, "");
  CHECK(opening().find("empty file") != std::string::npos);
  CHECK(!ImageFile::is_one(path));
  // A raw file is verified as a whole.
  write_image_file(path, raw_info(), raw_sources());
  std::string raw = read_bytes(path);
  const size_t pixel = raw.find(std::string("\x28\x29\x2A\x2B", 4));
  REQUIRE(pixel != std::string::npos);
  raw[pixel] ^= 4;
  write_bytes(path, raw);
  CHECK(opening().find("do not match its checksum") != std::string::npos);
  // Every single byte of a list of an encoded file is covered too.
  ImageFileInfo info = encoded_info();
  write_image_file(path, info, encoded_sources());
  const size_t labels = whole.find(std::string("\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0", 16));
  REQUIRE(labels != std::string::npos);
  damaged = whole;
  damaged[labels] ^= 1;
  write_bytes(path, damaged);
  CHECK(opening().find("do not match their checksum") != std::string::npos);
}

TEST_CASE("P62: readers side by side; a writer that fails leaves the old file") {
  const TemporaryFolder folder;
  const std::string path = folder.file("images.h5");
  write_image_file(path, encoded_info(), encoded_sources());
  const ImageFile one = ImageFile::open(path), two = ImageFile::open(path, false);
  CHECK(one.checksum() == two.checksum());
  // In a forked child the descriptor reads by position: it disturbs nobody.
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = true;
    for (int64_t i = 0; i < 2000; ++i)
      good &= one.split("train")->bytes(i).size() == static_cast<size_t>(1000 * (i % 5));
    ::_exit(good ? 0 : 1);
  }
  for (int64_t i = 1999; i >= 0; --i)
    REQUIRE(one.split("train")->bytes(i).size() == static_cast<size_t>(1000 * (i % 5)));
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  auto sources = encoded_sources();
  sources[0].read = [](int64_t) { return std::string("changed"); };
  CHECK_THROWS_AS(write_image_file(path, encoded_info(), sources), Error);
  CHECK(ImageFile::open(path).checksum() == one.checksum());
  CHECK(!std::filesystem::exists(path + "." + std::to_string(::getpid()) + ".tmp"));
  sources = encoded_sources();
  sources[0].labels[7] = 2;
  CHECK(message_of<Error>([&] { write_image_file(path, encoded_info(), sources); }) ==
        "image file: train image 7 has class 2 of 2");
}

TEST_CASE("Raw images as samples: normalised, whole, the same for any number of workers") {
  const TemporaryFolder folder;
  const std::string path = folder.file("raw.h5");
  ImageFileInfo info = raw_info();
  info.height = info.width = 4;
  std::array<ImageSource, 3> sources;
  for (int i = 0; i < 37; ++i) {
    sources[0].labels.push_back(i % 2);
    sources[0].sizes.push_back(16);
  }
  sources[0].read = [](int64_t i) {
    std::string bytes(16, '\0');
    std::iota(bytes.begin(), bytes.end(), static_cast<char>(3 * i));
    return bytes;
  };
  write_image_file(path, info, sources);
  const ImageFile file = ImageFile::open(path);
  const auto plain = std::make_shared<ImageSamples>(file, "train", ImageOptions{});
  CHECK(plain->image_size() == 4);
  CHECK(plain->channels() == 1);
  CHECK(plain->classes() == 2);
  const Batch batch = plain->eval_batch({5, 0});
  REQUIRE(batch.images.shape() == Shape{2, 1, 4, 4});
  CHECK(batch.targets.to_vector<int32_t>() == std::vector<int32_t>{1, 0});
  CHECK(batch.images.to_vector<float>()[1] == Approx((16 / 255.0 - 0.5) / 0.25).epsilon(1e-6));
  AugmentOptions all{.pad_crop = 1,
                     .crop_scale = 0.3,
                     .jitter = 0.4,
                     .erase = 0.5,
                     .mixup = 0.8,
                     .cutmix = 1,
                     .flip = true,
                     .rand_ops = 2};
  const auto split = split_of(
      std::make_shared<ImageSamples>(file, "train", ImageOptions{.size = 8, .augment = all}));
  const auto read = [&](int64_t workers, int64_t position, int count) {
    auto stream = split->stream({.batch_size = 5,
                                 .seed = 1,
                                 .position = position,
                                 .prefetch = workers,
                                 .workers = std::max<int64_t>(workers, 1)});
    std::vector<float> values;
    for (int i = 0; i < count; ++i) {
      const Batch made = stream->next();
      const auto pixels = made.images.to_vector<float>();
      values.insert(values.end(), pixels.begin(), pixels.end());
      values.push_back(static_cast<float>(made.share));
      for (const Tensor& t : {made.targets, made.mixed_targets})
        for (const int32_t id : t.to_vector<int32_t>()) values.push_back(static_cast<float>(id));
    }
    return values;
  };
  const auto expected = read(0, 0, 15);  // two epochs
  CHECK(read(1, 0, 15) == expected);
  CHECK(read(4, 0, 15) == expected);
  auto joined = read(4, 0, 6);
  const auto rest = read(3, 30, 9);
  joined.insert(joined.end(), rest.begin(), rest.end());
  CHECK(joined == expected);
}

TEST_CASE("IDX files that are not what they say are named") {
  const TemporaryFolder folder;
  const std::string path = folder.file("idx");
  const std::string good(
      "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
      "abcdef",
      18);
  write_bytes(path, good);
  const IdxFile idx = read_idx(path);
  CHECK(idx.shape == std::vector<int64_t>{2, 3});
  CHECK(idx.values[5] == 'f');
  const auto refused = [&](const std::string& bytes, const char* part) {
    write_bytes(path, bytes);
    const std::string message = message_of<Error>([&] { read_idx(path); });
    CHECK(message.find(path) == 0);
    CHECK(message.find(part) != std::string::npos);
  };
  refused(good.substr(0, 17), "cut: it has 5 values of 6");
  refused(good + "g", "longer");
  refused(good.substr(0, 9), "cut in its header");
  refused("", "not an IDX file");
  refused("abcdefgh", "not an IDX file");
  refused(std::string("\0\0\x0D\x01\0\0\0\x01"
                      "abcd",
                      12),
          "type 13");
  CHECK_THROWS_AS(read_idx(folder.file("none")), Error);
}

TEST_CASE("Fashion-MNIST as an image file", "[fashion]") {
  const TemporaryFolder folder;
  const std::string none = message_of<Error>([&] {
    build_fashion_mnist({.out = folder.file("f.h5"), .folder = folder.path(), .split = {}});
  });
  CHECK(none.find("apt-get install dataset-fashion-mnist") != std::string::npos);
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) return;
  const std::string path = folder.file("fashion.h5");
  const ImageSummary made = build_fashion_mnist({.out = path, .folder = "", .split = {}});
  CHECK(made.images == std::array<int64_t, 3>{55000, 5000, 10000});
  const ImageFile file = ImageFile::open(path);
  CHECK(file.checksum() == made.checksum);
  CHECK(file.classes() == 10);
  std::array<int, 10> counts{};
  for (const char* split : {"train", "val"})
    for (int64_t i = 0; i < file.split(split)->size(); ++i)
      ++counts[static_cast<size_t>(file.split(split)->label(i))];
  CHECK(counts == std::array<int, 10>{6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000});
  // The first test image is an ankle boot, dark at its border.
  const auto test = file.split("test");
  CHECK(test->label(0) == 9);
  CHECK(test->bytes(0).size() == 1024);
  for (int i = 0; i < 64; ++i) CHECK(test->bytes(0)[static_cast<size_t>(i)] == 0);
  // Padding takes (32^2 - 28^2) / 32^2 of the published mean 0.2860.
  CHECK(made.mean[0] == Approx(0.2860 * 784 / 1024).margin(5e-4));
}
