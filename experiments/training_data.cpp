#include "experiments/training_data.h"

#include "core/rng.h"
#include "data/batches.h"
#include "data/image_samples.h"
#include "experiments/random_samples.h"

namespace cbwc {
namespace {

// A data set that trains this config, for a message.
const char* data_set_for(const Config& config) {
  if (reads_images(config)) return "fashion_mnist";
  switch (task_of(config)) {
    case Task::language_model:
      return "wordnet_lm";
    case Task::translation:
      return "web_sparv";
    default:
      return "wordnet_classes";
  }
}

TrainingData open_tokens(const Config& config, const std::string& eval_split) {
  const TokenFile file = TokenFile::open(config.data.file, {config.data.file_locking});
  const auto windows = [&](const std::string& split) {
    return std::make_shared<TokenWindows>(file.split(split), config.model.context);
  };
  TrainingData data;
  data.train = windows(config.data.train_split);
  if (!eval_split.empty()) data.eval = windows(eval_split);
  data.shape.vocab = file.vocab_size();
  data.checksum = file.checksum();
  data.tokenizer = file.tokenizer();
  data.note = "tokens of " + config.data.file + " (" + file.description() + ")";
  return data;
}

ImageOptions image_options(const Config& config) {
  const Config::Augment& a = config.augment;
  ImageOptions options;
  options.size = config.model.image;
  options.augment = {a.pad_crop, a.crop_scale,     a.jitter, a.erase,   a.mixup,
                     a.cutmix,   a.rand_magnitude, a.flip,   a.rand_ops};
  options.bad_images = parse_bad_images(config.data.bad_images);
  return options;
}

TrainingData open_images(const Config& config, const std::string& eval_split) {
  const ImageFile file = ImageFile::open(config.data.file, config.data.file_locking);
  const auto samples = [&](const std::string& split) {
    return std::make_shared<ImageSamples>(file, split, image_options(config));
  };
  TrainingData data;
  const auto train = samples(config.data.train_split);
  data.train = split_of(train);
  std::shared_ptr<const ImageSamples> eval;
  if (!eval_split.empty()) {
    eval = samples(eval_split);
    data.eval = split_of(eval);
  }
  data.shape.classes = file.classes();
  data.shape.channels = file.info().channels;
  data.checksum = file.checksum();
  data.note = "images of " + config.data.file + " (" + file.info().description + ")";
  data.skipped = [train, eval] { return train->skipped() + (eval ? eval->skipped() : 0); };
  return data;
}

TrainingData random_tokens(const Config& config, int64_t samples, uint64_t seed, int64_t window) {
  TrainingData data;
  data.shape.vocab = config.model.vocab > 0 ? config.model.vocab : Tokenizer::bytes().vocab_size();
  Rng rng(seed, "random tokens");
  // An epoch has one window fewer than would fit, for its random offset.
  std::vector<int32_t> ids(static_cast<size_t>((samples + 2) * window + 1));
  for (int32_t& id : ids)
    id = static_cast<int32_t>(rng.below(static_cast<uint64_t>(data.shape.vocab)));
  data.train = std::make_shared<TokenWindows>(
      std::make_shared<TokenSplit>(ids, std::vector<int64_t>{0}, data.shape.vocab), window);
  data.eval = data.train;
  data.checksum = "random";
  data.note = fmt::format("seeded random tokens (vocabulary {}), not text", data.shape.vocab);
  return data;
}

}  // namespace

TrainingData open_data(const Config& config, const std::string& eval_split) {
  CBWC_CHECK(!config.data.file.empty(), "data.file is not set: make one with `cbwc data ",
             data_set_for(config), " --out FILE.h5` and pass --set data.file=FILE.h5");
  TrainingData data =
      reads_images(config) ? open_images(config, eval_split) : open_tokens(config, eval_split);
  const auto enough = [&](int64_t set, int64_t needed, const char* key, const char* what) {
    CBWC_CHECK(set == 0 || set >= needed, key, " is ", set, ", but ", config.data.file, " has ",
               what, " up to ", needed - 1);
  };
  enough(config.model.vocab, data.shape.vocab, "model.vocab", "token ids");
  enough(config.model.classes, data.shape.classes, "model.classes", "classes");
  return data;
}

TrainingData random_data(const Config& config, int64_t samples, uint64_t seed, int64_t window) {
  if (window <= 0) window = config.model.context;
  if (task_of(config) == Task::language_model) return random_tokens(config, samples, seed, window);
  TrainingData data;
  const int64_t vocab =
      config.model.vocab > 0 ? config.model.vocab : Tokenizer::bytes().vocab_size();
  data.shape = {vocab, vocab, config.model.classes > 0 ? config.model.classes : 10, 3};
  data.train = split_of(std::make_shared<RandomSamples>(config, data.shape, samples, window, seed));
  data.eval = data.train;
  data.checksum = "random";
  data.note = reads_images(config)
                  ? std::string("seeded noise, not images")
                  : fmt::format("seeded random tokens (vocabulary {}), not text", vocab);
  return data;
}

}  // namespace cbwc
