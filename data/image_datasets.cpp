#include "data/image_datasets.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/check.h"
#include "core/rng.h"
#include "data/idx_file.h"

namespace cbwc {
namespace {

constexpr const char* kFashionFolder = "/usr/share/datasets/fashion-mnist";
constexpr int64_t kFashionSide = 28, kFashionPadded = 32, kFashionVal = 5000;
const std::vector<std::string> kFashionClasses = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                                  "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                                  "Bag",         "Ankle boot"};

struct Fashion {
  IdxFile images, labels;
  int64_t count() const { return images.shape[0]; }
};

Fashion read_fashion(const std::string& folder, const std::string& part) {
  const auto path = [&](const char* what) {
    const auto file = std::filesystem::path(folder) / (part + what);
    CBWC_CHECK(std::filesystem::exists(file), "fashion_mnist: there is no ", file.string(),
               ". Install it with: apt-get install dataset-fashion-mnist");
    return file.string();
  };
  const std::string images = path("-images-idx3-ubyte.gz"), labels = path("-labels-idx1-ubyte.gz");
  Fashion fashion{read_idx(images), read_idx(labels)};
  const auto& shape = fashion.images.shape;
  CBWC_CHECK(shape.size() == 3 && shape[1] == kFashionSide && shape[2] == kFashionSide, images,
             ": not images of 28 x 28");
  CBWC_CHECK(fashion.labels.shape == std::vector<int64_t>{shape[0]}, labels, ": not ", shape[0],
             " labels");
  return fashion;
}

std::string padded(const uint8_t* image) {
  constexpr int64_t kBorder = (kFashionPadded - kFashionSide) / 2;
  std::string out(static_cast<size_t>(kFashionPadded * kFashionPadded), '\0');
  for (int64_t y = 0; y < kFashionSide; ++y)
    std::copy_n(image + y * kFashionSide, kFashionSide,
                out.begin() + (y + kBorder) * kFashionPadded + kBorder);
  return out;
}

ImageSource source_of(const Fashion& fashion, const std::vector<int64_t>& which) {
  ImageSource source;
  for (const int64_t i : which)
    source.labels.push_back(fashion.labels.values[static_cast<size_t>(i)]);
  source.sizes.assign(which.size(), kFashionPadded * kFashionPadded);
  source.read = [&fashion, which](int64_t i) {
    const int64_t image = which[static_cast<size_t>(i)];
    return padded(fashion.images.values.data() + image * kFashionSide * kFashionSide);
  };
  return source;
}

// Mean and deviation of one channel over all pixels, 0 to 1. Sums of integers: exact.
void measure(const ImageSource& source, ImageFileInfo& info) {
  uint64_t sum = 0, squares = 0, count = 0;
  for (int64_t i = 0; i < std::ssize(source.labels); ++i)
    for (const char c : source.read(i)) {
      const uint64_t value = static_cast<unsigned char>(c);
      sum += value;
      squares += value * value;
      ++count;
    }
  const double n = static_cast<double>(std::max<uint64_t>(count, 1)) * 255;
  const double mean = static_cast<double>(sum) / n;
  const double square = static_cast<double>(squares) / (n * 255);
  info.mean = {mean};
  info.deviation = {std::sqrt(std::max(square - mean * mean, 1e-12))};
}

}  // namespace

std::vector<DatasetInfo> list_image_datasets() {
  return {{"fashion_mnist", "10 classes of clothes, 70,000 grey images of 28 x 28, padded to 32",
           "the Debian package dataset-fashion-mnist (apt-get install dataset-fashion-mnist)"},
          {"image_folder", "JPEG and PNG files, class = folder, with or without train/ and val/",
           "--folder FOLDER"},
          {"openclipart", "11 classes of colour clip art of mixed sizes, 6,300 PNG images",
           "the Debian package openclipart-png (apt-get install openclipart-png)"}};
}

bool is_image_dataset(const std::string& name) {
  const auto all = list_image_datasets();
  return std::any_of(all.begin(), all.end(), [&](const auto& info) { return info.name == name; });
}

ImageSummary build_image_dataset(const std::string& name, const ImageDatasetOptions& options) {
  if (name == "fashion_mnist") return build_fashion_mnist(options);
  if (name == "image_folder") return build_image_folder(options);
  if (name == "openclipart") return build_openclipart(options);
  detail::fail("data: '", name, "' is not an image data set");
}

ImageSummary build_fashion_mnist(const ImageDatasetOptions& options) {
  const std::string folder = options.folder.empty() ? kFashionFolder : options.folder;
  const Fashion train = read_fashion(folder, "train"), test = read_fashion(folder, "t10k");
  CBWC_CHECK(train.count() > kFashionVal, "fashion_mnist: ", train.count(), " training images in ",
             folder, "; more than ", kFashionVal, " were expected");
  std::vector<int64_t> order(static_cast<size_t>(train.count()));
  std::iota(order.begin(), order.end(), int64_t{0});
  Rng rng(options.split.seed, "fashion_mnist/val");
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  std::vector<int64_t> val(order.begin(), order.begin() + kFashionVal);
  std::vector<int64_t> rest(order.begin() + kFashionVal, order.end());
  std::sort(val.begin(), val.end());
  std::sort(rest.begin(), rest.end());
  std::vector<int64_t> all(static_cast<size_t>(test.count()));
  std::iota(all.begin(), all.end(), int64_t{0});
  const std::array<ImageSource, 3> sources = {source_of(train, rest), source_of(train, val),
                                              source_of(test, all)};
  ImageFileInfo info{.encoded = false,
                     .channels = 1,
                     .height = kFashionPadded,
                     .width = kFashionPadded,
                     .classes = kFashionClasses,
                     .mean = {},
                     .deviation = {},
                     .description = "Fashion-MNIST (Xiao et al., 2017, MIT licence) from " +
                                    folder + ", padded to 32 x 32"};
  measure(sources[0], info);
  return write_images("fashion_mnist", options.out, info, sources);
}

ImageSummary write_images(const std::string& name, const std::string& out,
                          const ImageFileInfo& info, const std::array<ImageSource, 3>& sources,
                          std::vector<std::string> warnings) {
  write_image_file(out, info, sources);
  ImageSummary summary{.name = name,
                       .out = out,
                       .kind = info.encoded ? "encoded" : "raw",
                       .checksum = ImageFile::open(out).checksum(),
                       .classes = std::ssize(info.classes),
                       .images = {},
                       .mean = info.mean,
                       .deviation = info.deviation,
                       .warnings = std::move(warnings)};
  for (size_t s = 0; s < sources.size(); ++s) summary.images[s] = std::ssize(sources[s].labels);
  return summary;
}

}  // namespace cbwc
