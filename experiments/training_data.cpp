#include "experiments/training_data.h"

#include <filesystem>

#include "core/rng.h"
#include "data/batches.h"
#include "data/hash.h"
#include "data/image_samples.h"
#include "data/sequence_samples.h"
#include "experiments/random_samples.h"

namespace cbwc {
namespace {

// A data set that trains this config, for a message.
const char* data_set_for(const Config& config) {
  if (reads_images(config))
    return config.data.build.empty() ? "image_folder --folder IMAGES" : "fashion_mnist";
  switch (task_of(config)) {
    case Task::language_model:
      return "wordnet_lm";
    case Task::translation:
      return "web_sparv";
    default:
      return "wordnet_classes";
  }
}

TrainingData open_tokens(const Config& config, const std::string& eval_split,
                         const InputRules& rules) {
  const TokenFile file = TokenFile::open(config.data.file, {config.data.file_locking});
  CBWC_CHECK(!rules.tokenizer || encode_alike(file.tokenizer(), *rules.tokenizer), config.data.file,
             ": its tokens are another tokenizer's than the model's; `cbwc eval --text FILE` "
             "measures the model on a text");
  const auto windows = [&](const std::string& split) {
    return std::make_shared<TokenWindows>(file.split(split), config.model.context);
  };
  TrainingData data;
  data.train = windows(config.data.train_split);
  if (!eval_split.empty()) {
    data.eval = windows(eval_split);
    data.eval->pass(1, 1);  // one that is too short is an Error now, not at the first evaluation
  }
  data.shape.vocab = file.vocab_size();
  data.checksum = file.checksum();
  data.tokenizer = file.tokenizer();
  data.note = "tokens of " + config.data.file + " (" + file.description() + ")";
  return data;
}

ImageOptions image_options(const Config& config, const InputRules& rules) {
  const Config::Augment& a = config.augment;
  ImageOptions options;
  options.size = config.model.image;
  options.augment = {a.pad_crop, a.crop_scale,     a.jitter, a.erase,   a.mixup,
                     a.cutmix,   a.rand_magnitude, a.flip,   a.rand_ops};
  options.bad_images = parse_bad_images(config.data.bad_images);
  options.channels = rules.channels;
  options.mean = rules.mean;
  options.deviation = rules.deviation;
  options.sizing = rules.sizing;
  return options;
}

TrainingData open_images(const Config& config, const std::string& eval_split,
                         const InputRules& rules) {
  const ImageFile file = ImageFile::open(config.data.file, config.data.file_locking);
  const auto samples = [&](const std::string& split) {
    return std::make_shared<ImageSamples>(file, split, image_options(config, rules));
  };
  TrainingData data;
  const auto train = samples(config.data.train_split);
  data.train = split_of(train);
  data.images = {train};
  if (!eval_split.empty()) {
    data.images.push_back(samples(eval_split));
    data.eval = split_of(data.images.back());
  }
  data.shape.classes = file.classes();
  data.classes = file.info().classes;
  data.shape.channels = train->channels();
  data.checksum = file.checksum();
  data.note = "images of " + config.data.file + " (" + file.info().description + ")";
  return data;
}

std::shared_ptr<const TextSamples> make_samples(const Config& config, const SequenceFile& file,
                                                const std::string& split) {
  const int64_t context = config.model.context;
  switch (task_of(config)) {
    case Task::language_model:
      return std::make_shared<Instructions>(file, split, context);
    case Task::translation:
      return std::make_shared<TranslationPairs>(file, split, context);
    case Task::masked_language_model:
      return std::make_shared<MaskedTokens>(file, split, context, config.data.mask_probability);
    default:
      return std::make_shared<TextClassification>(file, split, context);
  }
}

std::shared_ptr<const TextSamples> text_samples(const Config& config, const SequenceFile& file,
                                                const std::string& split, TrainingData& data) {
  const auto samples = make_samples(config, file, split);
  data.texts += samples->size() + samples->dropped();
  data.cut_texts += samples->truncated();
  data.left_out_texts += samples->dropped();
  return samples;
}

// Of a sequence file's samples, what this config trains on.
SequenceKind kind_for(const Config& config) {
  switch (task_of(config)) {
    case Task::language_model:
      return SequenceKind::instructions;
    case Task::translation:
      return SequenceKind::pairs;
    default:
      return SequenceKind::classification;
  }
}

[[noreturn]] void fail_kind(const Config& config, const std::string& holds) {
  detail::fail(config.data.file, ": holds ", holds, ", not what a model of family ",
               config.model.family, " trains on (`cbwc data ", data_set_for(config),
               "` makes such a file)");
}

TrainingData open_sequences(const Config& config, const std::string& eval_split,
                            const InputRules& rules) {
  SequenceFile file = SequenceFile::open(config.data.file, {config.data.file_locking});
  if (file.kind() != kind_for(config))
    fail_kind(config, file.kind() == SequenceKind::classification ? "texts of classes"
                                                                  : to_string(file.kind()));
  if (rules.tokenizer && !encode_alike(file.tokenizer(), *rules.tokenizer))
    file = file.encoded_by(*rules.tokenizer, eval_split);
  CBWC_CHECK(config.model.family != "bert" || config.model.token_types > 1 ||
                 !file.split(config.data.train_split)->has_second(),
             "model.token_types is 1, but ", config.data.file,
             " holds pairs of texts, which are of two kinds");
  TrainingData data;
  data.train =
      split_of(text_samples(config, file, config.data.train_split, data), config.data.by_length);
  if (!eval_split.empty()) data.eval = split_of(text_samples(config, file, eval_split, data));
  data.shape.vocab = file.tokenizer().vocab_size();
  if (file.two_tokenizers()) data.shape.target_vocab = file.target_tokenizer().vocab_size();
  data.shape.classes = std::ssize(file.classes());
  data.classes = file.classes();
  data.checksum = file.checksum();
  data.tokenizer = file.tokenizer();
  data.target_tokenizer = file.target_tokenizer();
  data.instructions = file.kind() == SequenceKind::instructions;
  if (!eval_split.empty()) data.references = file.split(eval_split)->references;
  data.note = std::string(to_string(file.kind())) + " of " + config.data.file + " (" +
              file.description() + ")";
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

void require_targets(const Config& config) {
  CBWC_CHECK(task_of(config) != Task::hidden_states,
             "model.task hidden_states: there is nothing to train or to score; take ",
             reads_images(config) ? "classification" : "mlm or classification");
}

TrainingData open_data(const Config& config, const std::string& eval_split,
                       const InputRules& rules) {
  require_targets(config);
  CBWC_CHECK(!config.data.file.empty(), "data.file is not set: make one with `cbwc data ",
             data_set_for(config), " --out FILE.h5` and pass --set data.file=FILE.h5");
  CBWC_CHECK(std::filesystem::exists(config.data.file), "data.file: ", config.data.file,
             ": no such file; make one with `cbwc data ", data_set_for(config),
             " --out FILE.h5`, or say in data.build how");
  const std::string format = data_file_format(config.data.file, config.data.file_locking);
  const bool images = reads_images(config);
  const bool text =
      format == "sequences" || (format == "tokens" && task_of(config) == Task::language_model);
  if (!(images ? format == "images" : text)) fail_kind(config, format);
  TrainingData data = images                  ? open_images(config, eval_split, rules)
                      : format == "sequences" ? open_sequences(config, eval_split, rules)
                                              : open_tokens(config, eval_split, rules);
  const auto enough = [&](int64_t set, int64_t needed, const char* key, const char* what) {
    CBWC_CHECK(set == 0 || set >= needed, key, " is ", set, ", but ", config.data.file, " has ",
               what, " up to ", needed - 1);
  };
  enough(config.model.vocab, data.shape.vocab, "model.vocab", "token ids");
  const int64_t classes = config.model.classes;
  CBWC_CHECK(data.shape.classes == 0 || classes == 0 || classes == data.shape.classes,
             "model.classes is ", classes, ", but ", config.data.file, " has ", data.shape.classes,
             " classes (0 takes the file's)");
  return data;
}

std::string tokenizer_id(const TrainingData& data) {
  if (!data.tokenizer) return "";
  std::string text = data.tokenizer->to_json();
  const std::string target = data.target_tokenizer ? data.target_tokenizer->to_json() : text;
  if (target != text) text += target;
  return fmt::format("{:016x}", hash64(text.data(), text.size()));
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
