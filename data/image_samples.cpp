#include "data/image_samples.h"

#include <algorithm>

#include "data/augment_rand.h"
#include "data/decode.h"

namespace cbwc {
namespace {

constexpr size_t kMostReasons = 20;

// A grey image in `channels` equal ones; one that has them stays.
Image with_channels(Image image, int64_t channels) {
  if (image.channels == channels) return image;
  const std::vector<float> grey = image.pixels;
  for (; image.channels < channels; ++image.channels)
    image.pixels.insert(image.pixels.end(), grey.begin(), grey.end());
  return image;
}

// What the model gets of a file's images.
ImageFileInfo info_for(const ImageFile& file, const ImageOptions& options) {
  ImageFileInfo info = file.info();
  if (options.channels > 0 && options.channels != info.channels) {
    CBWC_CHECK(info.channels == 1, file.path(), ": its images have ", info.channels,
               " channels, the model reads ", options.channels);
    info.channels = options.channels;
    info.mean.assign(static_cast<size_t>(info.channels), info.mean.at(0));
    info.deviation.assign(static_cast<size_t>(info.channels), info.deviation.at(0));
  }
  if (!options.mean.empty()) info.mean = options.mean;
  if (!options.deviation.empty()) info.deviation = options.deviation;
  const auto channels = static_cast<size_t>(info.channels);
  CBWC_CHECK(info.mean.size() == channels && info.deviation.size() == channels, file.path(),
             ": normalised by ", info.mean.size(), " means and ", info.deviation.size(),
             " deviations, but its images have ", channels, " channels");
  return info;
}

// The middle as transformers finds it: halves go up and left.
Image sized(const Image& image, const ImageSizing& sizing, int64_t size) {
  const Image out = sizing.keep_aspect ? resize_shorter(image, sizing.side, sizing.filter)
                                       : resize(image, sizing.side, sizing.side, sizing.filter);
  return crop(out, (out.height - size) / 2, (out.width - size) / 2, size, size);
}

}  // namespace

BadImages parse_bad_images(const std::string& name) {
  CBWC_CHECK(name == "error" || name == "skip", "bad_images: '", name, "' is not error or skip");
  return name == "skip" ? BadImages::skip : BadImages::error;
}

ImageSamples::ImageSamples(const ImageFile& file, const std::string& split, ImageOptions options)
    : info_(info_for(file, options)),
      split_(file.split(split)),
      options_(options),
      size_(options.size),
      stored_channels_(file.info().channels) {
  CBWC_CHECK(split_->size() > 0, file.path(), ": the split ", split,
             " has no image; choose another ",
             "split, or build the file with more images or a larger part for this one");
  CBWC_CHECK(size_ >= 0, "images: a size of ", size_, " pixels");
  CBWC_CHECK(!options_.sizing || (size_ > 0 && options_.sizing->side >= size_),
             "images: resized to less than the ", size_, " pixels that the model reads");
  if (size_ > 0) return;
  CBWC_CHECK(!info_.encoded && info_.height == info_.width, file.path(),
             ": its images are not squares of one size; give the size that the model reads");
  size_ = info_.height;
}

Image ImageSamples::decode(int64_t sample) const {
  const uint8_t* raw = split_->raw(sample);
  Image image = raw != nullptr
                    ? Image::from_planes(raw, stored_channels_, info_.height, info_.width)
                    : decode_image(split_->bytes(sample), stored_channels_);
  return with_channels(std::move(image), info_.channels);
}

Image ImageSamples::for_evaluation(int64_t sample) const {
  const Image image = decode(sample);
  if (options_.sizing) return sized(image, *options_.sizing, size_);
  if (!info_.encoded) return resize(image, size_, size_);
  return centre_crop(resize_shorter(image, size_ * 256 / 224), size_);
}

Image ImageSamples::for_training(const Draw& draw) const {
  const AugmentOptions& augment = options_.augment;
  Rng crop_rng = draw.rng("crop"), color_rng = draw.rng("color"), erase_rng = draw.rng("erase");
  Image image = augment.crop_scale < 1
                    ? random_resized_crop(decode(draw.sample), size_, augment.crop_scale, crop_rng)
                    : for_evaluation(draw.sample);
  if (augment.pad_crop > 0) image = pad_crop(image, augment.pad_crop, crop_rng);
  if (augment.flip && crop_rng.below(2) == 1) image = flip(image);
  if (augment.rand_ops > 0)
    rand_augment(image, augment.rand_ops, augment.rand_magnitude, info_.mean, color_rng);
  if (augment.jitter > 0) jitter(image, augment.jitter, color_rng);
  normalise(image);
  if (augment.erase > 0) erase(image, augment.erase, erase_rng);
  return image;
}

void ImageSamples::normalise(Image& image) const {
  for (int64_t c = 0; c < image.channels; ++c) {
    const auto mean = static_cast<float>(info_.mean[static_cast<size_t>(c)]);
    const auto scale = static_cast<float>(1 / info_.deviation[static_cast<size_t>(c)]);
    float* plane = image.plane(c);
    for (int64_t i = 0; i < image.height * image.width; ++i) plane[i] = (plane[i] - mean) * scale;
  }
}

Batch ImageSamples::gather(const std::vector<int64_t>& samples,
                           const std::function<Image(size_t)>& image) const {
  const int64_t rows = std::ssize(samples), values = info_.channels * size_ * size_;
  Batch batch;
  batch.images = Tensor::empty({rows, info_.channels, size_, size_}, DType::f32);
  batch.targets = Tensor::empty({rows}, DType::i32);
  int64_t row = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    try {
      const Image made = image(i);
      std::copy(made.pixels.begin(), made.pixels.end(), batch.images.data<float>() + row * values);
      batch.targets.data<int32_t>()[row++] = split_->label(samples[i]);
    } catch (const Error& error) {
      const std::string reason = split_->where(samples[i]) + ": " + error.what();
      if (options_.bad_images == BadImages::error) throw Error(reason);
      const std::lock_guard lock(mutex_);
      if (skipped_.insert(samples[i]).second && reasons_.size() < kMostReasons)
        reasons_.push_back(reason);
    }
  }
  CBWC_CHECK(row > 0, "images: none of the ", rows,
             " images of a batch can be decoded, among them ", split_->where(samples[0]));
  if (row < rows) {
    batch.images = batch.images.slice(0, 0, row);
    batch.targets = batch.targets.slice(0, 0, row);
  }
  return batch;
}

Batch ImageSamples::train_batch(const std::vector<Draw>& draws) const {
  std::vector<int64_t> samples;
  for (const Draw& draw : draws) samples.push_back(draw.sample);
  Batch batch = gather(samples, [&](size_t i) { return for_training(draws[i]); });
  if (options_.augment.mixup <= 0 && options_.augment.cutmix <= 0) return batch;
  Rng rng = draws[0].rng("mix");
  const int64_t rows = batch.targets.size(0);
  batch.share = mix_batch(batch.images.data<float>(), rows, info_.channels, size_, size_,
                          options_.augment, rng);
  batch.mixed_targets = Tensor::empty({rows}, DType::i32);
  std::reverse_copy(batch.targets.data<int32_t>(), batch.targets.data<int32_t>() + rows,
                    batch.mixed_targets.data<int32_t>());
  return batch;
}

Batch ImageSamples::eval_batch(const std::vector<int64_t>& samples) const {
  return gather(samples, [&](size_t i) {
    Image image = for_evaluation(samples[i]);
    normalise(image);
    return image;
  });
}

std::vector<int64_t> ImageSamples::skipped() const {
  const std::lock_guard lock(mutex_);
  return {skipped_.begin(), skipped_.end()};
}

void ImageSamples::count_skipped(const std::vector<int64_t>& samples) const {
  const std::lock_guard lock(mutex_);
  skipped_.insert(samples.begin(), samples.end());
}

std::vector<std::string> ImageSamples::skipped_images() const {
  const std::lock_guard lock(mutex_);
  return reasons_;
}

}  // namespace cbwc
