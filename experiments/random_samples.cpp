#include "experiments/random_samples.h"

namespace cbwc {
namespace {

// Rows of random numbers below `limit`, row b from its sample's own stream.
Tensor random_rows(const std::vector<int64_t>& samples, int64_t length, int64_t limit,
                   uint64_t seed, const std::string& what) {
  std::vector<int32_t> out;
  for (const int64_t sample : samples) {
    Rng rng(seed, "random " + what + "/" + std::to_string(sample));
    for (int64_t i = 0; i < length; ++i)
      out.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(limit))));
  }
  return Tensor::from(out, {std::ssize(samples), length});
}

Tensor random_images(const std::vector<int64_t>& samples, const Shape& image, uint64_t seed) {
  Tensor out = Tensor::empty({std::ssize(samples), image[0], image[1], image[2]}, DType::f32);
  float* x = out.data<float>();
  for (const int64_t sample : samples) {
    Rng rng(seed, "random images/" + std::to_string(sample));
    for (int64_t i = 0; i < numel(image); ++i) *x++ = static_cast<float>(rng.normal());
  }
  return out;
}

// The first of every 1 / probability tokens.
void mask_tokens(Batch& batch, double probability) {
  const int64_t every = std::max<int64_t>(1, static_cast<int64_t>(1 / probability));
  std::vector<int32_t> rows, targets;
  for (int64_t i = 0; i < batch.ids.numel(); i += every) {
    rows.push_back(static_cast<int32_t>(i));
    targets.push_back(batch.ids.data<int32_t>()[i]);
  }
  batch.rows = Tensor::from(rows, {std::ssize(rows)});
  batch.targets = Tensor::from(targets, {std::ssize(targets)});
}

}  // namespace

RandomSamples::RandomSamples(const Config& config, const DataShape& shape, int64_t samples,
                             int64_t window, uint64_t seed)
    : task_(task_of(config)),
      images_(reads_images(config)),
      shape_(shape),
      samples_(samples),
      window_(window),
      image_(config.model.image),
      mask_probability_(config.data.mask_probability),
      seed_(seed) {}

Batch RandomSamples::train_batch(const std::vector<Draw>& draws) const {
  std::vector<int64_t> samples;
  for (const Draw& draw : draws) samples.push_back(draw.sample);
  return eval_batch(samples);
}

Batch RandomSamples::eval_batch(const std::vector<int64_t>& samples) const {
  Batch batch;
  if (images_)
    batch.images = random_images(samples, {shape_.channels, image_, image_}, seed_);
  else
    batch.ids = random_rows(samples, window_, shape_.vocab, seed_, "tokens");
  if (task_ == Task::classification)
    batch.targets =
        random_rows(samples, 1, shape_.classes, seed_, "classes").reshape({std::ssize(samples)});
  if (task_ == Task::masked_language_model) mask_tokens(batch, mask_probability_);
  if (task_ == Task::translation) {
    const int64_t vocab = shape_.target_vocab > 0 ? shape_.target_vocab : shape_.vocab;
    const Tensor text = random_rows(samples, window_ + 1, vocab, seed_, "translations");
    batch.decoder_ids = text.slice(1, 0, window_).contiguous();
    batch.targets = text.slice(1, 1, window_ + 1).contiguous();
  }
  return batch;
}

}  // namespace cbwc
