#include <png.h>
#include <filesystem>
#include <map>
#include <set>

#include "data/image_datasets.h"
#include "data/image_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"
#include "tests/support/image_writers.h"

using namespace cbwc;
using testing::message_of;
using testing::TemporaryFolder;
using testing::write_bytes;

namespace {

std::string png_of(int value) {
  const std::vector<std::string> rows(
      static_cast<size_t>(8 + value % 5),
      std::string{static_cast<char>(value), static_cast<char>(value / 256), '\0', '\7'});
  return testing::write_png(rows, 4, {.color_type = PNG_COLOR_TYPE_GRAY, .depth = 8});
}

std::string jpeg_of(int value) {
  return testing::write_jpeg(std::vector<uint8_t>(8 * 8, static_cast<uint8_t>(value)), 8, 8,
                             testing::JpegColors::grey, false);
}

void put(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  write_bytes(path, bytes);
}

ImageDatasetOptions options(const TemporaryFolder& folder) {
  return {.out = folder.file("out.h5"), .folder = folder.file("root"), .split = {}};
}

}  // namespace

TEST_CASE("An image folder with train and val, as ImageNet's") {
  const TemporaryFolder folder;
  put(folder.file("root/train/n02/b/2.JPEG"), jpeg_of(20));
  put(folder.file("root/train/n02/1.jpg"), jpeg_of(10));
  put(folder.file("root/train/n01/x.PNG"), png_of(30));
  put(folder.file("root/train/n01/readme.txt"), "not an image");
  put(folder.file("root/val/n02/v.png"), png_of(40));
  std::filesystem::create_directories(folder.file("root/train/.hidden"));
  // A tree of links is how subsets are often made.
  std::filesystem::create_directory_symlink(folder.file("root/train/n02"),
                                            folder.file("root/val/n01"));
  ImageDatasetOptions deep = options(folder);
  deep.recursive = true;
  const ImageSummary made = build_image_folder(deep);
  CHECK(made.images == std::array<int64_t, 3>{3, 3, 0});
  CHECK(made.classes == 2);
  CHECK(made.warnings ==
        std::vector<std::string>{"1 files that are not .jpg, .jpeg or .png were left out"});
  const ImageFile file = ImageFile::open(made.out);
  CHECK(file.info().classes == std::vector<std::string>{"n01", "n02"});
  CHECK(file.info().mean == std::vector<double>{0.485, 0.456, 0.406});
  const auto train = file.split("train");
  CHECK(train->label(0) == 0);
  CHECK(train->label(2) == 1);
  CHECK(train->where(1).find(folder.file("root/train/n02/1.jpg")) == 0);
  CHECK(train->bytes(2).size() == jpeg_of(20).size());
  const ImageSamples samples(file, "train", {.size = 7});
  const Batch batch = samples.eval_batch({1});
  CHECK(batch.images.shape() == Shape{1, 3, 7, 7});
  // 10 / 255 everywhere, normalised; JPEG may miss by one level.
  CHECK(batch.images.to_vector<float>()[60] ==
        Approx((10 / 255.0 - 0.456) / 0.224).margin(1.01 / 255 / 0.224));
}

TEST_CASE("Without val the images are split by their contents") {
  const TemporaryFolder folder;
  for (int i = 0; i < 600; ++i)
    put(folder.file(fmt::format("root/{}/{}.png", i % 3 ? "a" : "b", i)), png_of(i / 2));
  ImageDatasetOptions all = options(folder);
  all.split = {.val = 0.2, .test = 0.1, .seed = 4};
  const ImageSummary made = build_image_folder(all);
  CHECK(made.images[0] + made.images[1] + made.images[2] == 600);
  CHECK(std::abs(made.images[1] - 120) < 50);
  CHECK(std::abs(made.images[2] - 60) < 40);
  const ImageFile file = ImageFile::open(made.out);
  std::map<std::string, std::set<std::string>> where;  // pairs of equal files
  for (const std::string split : {"train", "val", "test"})
    for (int64_t i = 0; i < file.split(split)->size(); ++i) {
      const auto bytes = file.split(split)->bytes(i);
      where[std::string(bytes.begin(), bytes.end())].insert(split);
    }
  CHECK(where.size() == 300);
  for (const auto& [bytes, splits] : where) CHECK(splits.size() == 1);
  CHECK(build_image_folder(all).checksum == made.checksum);
  all.split.seed = 5;
  CHECK(build_image_folder(all).checksum != made.checksum);
}

TEST_CASE("P63: bad images are found while building") {
  const TemporaryFolder folder;
  put(folder.file("root/a/1.png"), png_of(1));
  put(folder.file("root/a/2.png"), png_of(2).substr(0, 50));
  put(folder.file("root/b/3.png"), png_of(3));
  put(folder.file("root/b/4.jpg"), "");
  ImageDatasetOptions all = options(folder);
  all.split = {.val = 0, .test = 0};
  const std::string message = message_of<Error>([&] { build_image_folder(all); });
  CHECK(message.find(folder.file("root/a/2.png: cannot be decoded as PNG")) == 0);
  CHECK(message.find("image 1 ") != std::string::npos);
  CHECK(!std::filesystem::exists(all.out));
  all.bad_images = "skip";
  const ImageSummary made = build_image_folder(all);
  CHECK(made.images[0] == 2);
  REQUIRE(made.warnings.size() == 1);
  CHECK(made.warnings[0].find("2 bad images were left out: ") == 0);
  CHECK(made.warnings[0].find("4.jpg: an empty file") != std::string::npos);
  all.bad_images = "keep";
  CHECK(build_image_folder(all).images[0] == 4);
  all.bad_images = "ignore";
  CHECK_THROWS_AS(build_image_folder(all), Error);
}

TEST_CASE("Folders that are no data set are refused") {
  const TemporaryFolder folder;
  const auto refusal = [&] {
    return message_of<Error>([&] { build_image_folder(options(folder)); });
  };
  CHECK(refusal().find("is not a folder") != std::string::npos);
  std::filesystem::create_directories(folder.file("root"));
  CHECK(refusal().find("has no folders") != std::string::npos);
  std::filesystem::create_directories(folder.file("root/a"));
  CHECK(refusal().find("no JPEG or PNG files") != std::string::npos);
  put(folder.file("root/b/1.png"), png_of(1));
  CHECK(refusal().find("no JPEG or PNG files in the class folder " + folder.file("root/a")) !=
        std::string::npos);
  put(folder.file("root/val/a/1.png"), png_of(1));
  CHECK(refusal().find("no train folder") != std::string::npos);
  put(folder.file("root/train/b/1.png"), png_of(1));
  CHECK(refusal().find("is not a class of") != std::string::npos);
  ImageDatasetOptions nowhere = options(folder);
  nowhere.folder.clear();
  CHECK(message_of<Error>([&] { build_image_folder(nowhere); }).find("--folder") !=
        std::string::npos);
  CHECK(message_of<Error>([&] {
          build_openclipart(options(folder));
        }).find("apt-get install openclipart-png") != std::string::npos);
  CHECK_THROWS_AS(build_image_dataset("cifar", options(folder)), Error);
}

TEST_CASE("A tree that is one level too deep is refused: Kaggle's ImageNet-100") {
  const TemporaryFolder folder;
  for (const char* part : {"train.X1/n01", "train.X2/n02", "val.X/n01"})
    put(folder.file(std::string("root/") + part + "/1.png"), png_of(1));
  const auto refusal = [&] {
    return message_of<Error>([&] { build_image_folder(options(folder)); });
  };
  std::string message = refusal();
  CHECK(message.find("the class folder " + folder.file("root/train.X1") + " has images in sub-") !=
        std::string::npos);
  CHECK(message.find("expected train/CLASS/*.jpg") != std::string::npos);
  CHECK(message.find("into " + folder.file("root/train/")) != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
  for (const char* part : {"train.X1", "train.X2", "val.X"})
    std::filesystem::remove_all(folder.file(std::string("root/") + part));
  put(folder.file("root/a/1.png"), png_of(1));
  put(folder.file("root/a/.thumbnails/1.png"), png_of(2));  // hidden: nobody means it
  CHECK(build_image_folder(options(folder)).images[0] == 1);
  put(folder.file("root/a/more/1.png"), png_of(3));  // left out silently it would be missed
  CHECK(refusal().find("--recursive takes all images below a class folder") != std::string::npos);
  ImageDatasetOptions deep = options(folder);
  deep.recursive = true;
  deep.split = {.val = 0, .test = 0};
  CHECK(build_image_folder(deep).images[0] == 2);
}

TEST_CASE(
    "An empty split of images is a warning, and an error with file and split when it is read") {
  const TemporaryFolder folder;
  for (int i = 0; i < 12; ++i) put(folder.file(fmt::format("root/a/{}.png", i)), png_of(i % 3));
  ImageDatasetOptions all = options(folder);
  all.split = {.val = 1e-9, .test = 0};
  const ImageSummary made = build_image_folder(all);
  REQUIRE(made.warnings.size() == 1);
  CHECK(made.warnings[0].find("no image fell into val: the 12 images have only 3 different") == 0);
  all.split = {.val = 0, .test = 0};
  CHECK(build_image_folder(all).warnings.empty());
  const ImageFile file = ImageFile::open(all.out);
  CHECK(message_of<Error>([&] {
          ImageSamples(file, "val", {.size = 7});
        }).find(all.out + ": the split val has no image; ") == 0);
}
