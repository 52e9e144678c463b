// A split of an image file as samples: decoded, augmented or cut for evaluation, normalised.
#pragma once
#include <mutex>
#include <optional>
#include <set>

#include "data/augment.h"
#include "data/image_file.h"
#include "data/samples.h"

namespace cbwc {

enum class BadImages { error, skip };
BadImages parse_bad_images(const std::string& name);  // "error", "skip"

// How evaluation makes an image as large as what the model reads, where not as ImageSamples says:
// resized to side x side, or with keep_aspect so that the shorter side is `side`; then the middle
// is cut out (transformers' image processors).
struct ImageSizing {
  int64_t side = 0;
  bool keep_aspect = false;
  ResizeFilter filter = ResizeFilter::bilinear;
};

struct ImageOptions {
  int64_t size = 0;  // height and width of what the model gets; 0: as stored (raw files only)
  AugmentOptions augment = {};
  BadImages bad_images = BadImages::error;
  // Of what the model gets; a grey image becomes as many equal channels as it reads. 0: as stored.
  int64_t channels = 0;
  std::vector<double> mean = {}, deviation = {};  // one of each channel; empty: the file's
  std::optional<ImageSizing> sizing = {};
};

// Training: random resized crop (crop_scale < 1; else as in evaluation), pad_crop, flip,
// RandAugment, jitter, normalisation, erasing; then mixup or cutmix of the batch.
// Evaluation: encoded images are resized so that the shorter side is size * 256 / 224, and cut in
// the middle; raw ones are taken whole, resized only if their size is another; or as `sizing` says.
// With `skip`, an image that cannot be decoded is left out of its batch and counted; a batch with
// none left is an Error. The error of an image names its file and number.
class ImageSamples : public Samples {
 public:
  ImageSamples(const ImageFile& file, const std::string& split, ImageOptions options);
  int64_t size() const override { return split_->size(); }
  int64_t length(int64_t) const override { return 0; }
  Batch train_batch(const std::vector<Draw>& draws) const override;
  Batch eval_batch(const std::vector<int64_t>& samples) const override;

  int64_t channels() const { return info_.channels; }
  int64_t image_size() const { return size_; }
  int64_t classes() const { return std::ssize(info_.classes); }
  std::vector<int64_t> skipped() const;  // the different images left out so far
  void count_skipped(const std::vector<int64_t>& samples) const;  // those of an earlier process
  std::vector<std::string> skipped_images() const;  // the reason of each, the first 20

 private:
  Image decode(int64_t sample) const;
  Image for_evaluation(int64_t sample) const;
  Image for_training(const Draw& draw) const;
  void normalise(Image& image) const;
  Batch gather(const std::vector<int64_t>& samples,
               const std::function<Image(size_t)>& image) const;

  ImageFileInfo info_;  // with the channels, mean and deviation of what the model gets
  std::shared_ptr<const ImageSplit> split_;
  ImageOptions options_;
  int64_t size_, stored_channels_;
  mutable std::mutex mutex_;
  mutable std::set<int64_t> skipped_;
  mutable std::vector<std::string> reasons_;
};

}  // namespace cbwc
