// Builders of image files from what is on the machine.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "data/datasets.h"
#include "data/image_file.h"

namespace cbwc {

struct ImageDatasetOptions {
  std::string out;
  std::string folder;  // empty: where the Debian package puts it
  SplitOptions split;  // image_folder without val/, openclipart: by the images' contents
  // Encoded images are decoded once while building: one that cannot be is an error with its path,
  // or is left out and counted in the warnings; keep: not looked at.
  std::string bad_images = "error";
  bool recursive = false;  // image_folder: images in sub-folders of a class folder belong to it
};

struct ImageSummary {
  std::string name, out, kind, checksum;  // kind: raw or encoded
  int64_t classes = 0;
  std::array<int64_t, 3> images = {};  // train, val, test
  std::vector<double> mean, deviation;
  std::vector<std::string> warnings;
};

std::vector<DatasetInfo> list_image_datasets();
bool is_image_dataset(const std::string& name);
ImageSummary build_image_dataset(const std::string& name, const ImageDatasetOptions& options);

// 10 classes of 28 x 28 grey images, padded to 32 with black. train 55,000 and val 5,000 (a random
// 5,000 of the original training images, by split.seed), test the original 10,000.
ImageSummary build_fashion_mnist(const ImageDatasetOptions& options);
// A folder for each class, of JPEG and PNG files; or train/, val/ and test/ folders of such trees,
// as ImageNet's. Hidden folders are passed over. Error naming a class folder that has no image, or
// has some in sub-folders only `recursive` looks into. What has no folder is taken from the
// training images by a seeded hash of their bytes, so equal files never cross splits (with val/ but
// no test/: no test). Normalised by ImageNet's mean and deviation.
ImageSummary build_image_folder(const ImageDatasetOptions& options);
// The 11 folders of Debian's openclipart-png with more than 105 images, but not "unsorted".
// Images of more than 2^24 pixels (17 of them, some too large to decode) are left out.
ImageSummary build_openclipart(const ImageDatasetOptions& options);

// What every builder ends with.
ImageSummary write_images(const std::string& name, const std::string& out,
                          const ImageFileInfo& info, const std::array<ImageSource, 3>& sources,
                          std::vector<std::string> warnings = {});

}  // namespace cbwc
