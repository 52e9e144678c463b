#include "experiments/training_data.h"

#include "core/rng.h"
#include "data/batches.h"

namespace cbwc {
namespace {

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
  CBWC_CHECK(
      !config.data.file.empty(),
      "data.file is not set: make one with `cbwc data wordnet_lm --out FILE.h5` and pass --set "
      "data.file=FILE.h5");
  TrainingData data = open_tokens(config, eval_split);
  CBWC_CHECK(config.model.vocab == 0 || config.model.vocab >= data.shape.vocab, "model.vocab is ",
             config.model.vocab, ", but ", config.data.file, " has token ids up to ",
             data.shape.vocab - 1);
  return data;
}

TrainingData random_data(const Config& config, int64_t samples, uint64_t seed, int64_t window) {
  return random_tokens(config, samples, seed, window > 0 ? window : config.model.context);
}

}  // namespace cbwc
