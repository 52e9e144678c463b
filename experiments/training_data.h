// The data of a run: two splits and what a model has to know of them, from a file or at random.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/data_split.h"
#include "data/image_samples.h"
#include "data/tokenizer.h"
#include "experiments/config.h"
#include "experiments/model_build.h"

namespace cbwc {

struct TrainingData {
  std::shared_ptr<const DataSplit> train, eval;
  DataShape shape;
  std::string checksum;
  std::optional<Tokenizer> tokenizer = {};         // none for images and random data
  std::optional<Tokenizer> target_tokenizer = {};  // of a translation
  std::string note = {};                           // one sentence: where it comes from
  bool instructions = false;                       // prompts and answers
  // Texts of both splits; those longer than model.context, which are cut; those whose answer leaves
  // no room for a prompt, which are left out.
  int64_t texts = 0, cut_texts = 0, left_out_texts = 0;
  std::vector<std::string> references = {};  // translation: the eval split's target texts
  std::vector<std::string> classes = {};     // names, by label
  std::vector<int32_t> class_of = {};  // the model's class of each label; empty: the same numbers
  // Train and eval, where the data are images: they count what data.bad_images = "skip" leaves out.
  std::vector<std::shared_ptr<const ImageSamples>> images = {};
};

// How a model reads a file that it was not trained on, instead of as the file itself says.
struct InputRules {
  // Of images; as ImageOptions.
  int64_t channels = 0;
  std::vector<double> mean = {}, deviation = {};
  std::optional<ImageSizing> sizing = {};
  std::optional<Tokenizer> tokenizer = {};  // a file of other tokens is encoded again by it
};

// Error for a missing or damaged file, one of another task, or ids beyond model.vocab. The eval
// split is empty when `eval_split` is "".
TrainingData open_data(const Config& config, const std::string& eval_split,
                       const InputRules& rules = {});
inline TrainingData open_data(const Config& config) {
  return open_data(config, config.data.eval_split);
}

// Error for a model that gives hidden states alone: it has nothing to train or to score.
void require_targets(const Config& config);

// The same for data whose ids mean the same tokens; "" where there is no tokenizer.
std::string tokenizer_id(const TrainingData& data);

// At least `samples` seeded random samples for the config's task, for benchmarks and checks that
// need no data. window: tokens of a sample, 0: model.context.
TrainingData random_data(const Config& config, int64_t samples, uint64_t seed, int64_t window = 0);

}  // namespace cbwc
