// From a Config to the things it describes: the model, its data, its schedule.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "data/token_file.h"
#include "experiments/config.h"
#include "layers/gpt.h"
#include "optim/schedule.h"

namespace cbwc {

struct TrainingData {
  std::shared_ptr<const TokenSplit> train, eval;
  int64_t vocab = 0;
  int64_t window = 0;  // tokens per sample; 0: model.context
  std::string checksum;
  std::optional<Tokenizer> tokenizer;  // none for random tokens
  std::string note;                    // one sentence: where the tokens come from
};

// Error for a missing or damaged file, or a vocabulary larger than model.vocab. The eval split is
// empty when `eval_split` is "".
TrainingData open_data(const Config& config, const std::string& eval_split);
inline TrainingData open_data(const Config& config) {
  return open_data(config, config.data.eval_split);
}
// Seeded uniform tokens: for benchmarks and checks that need no text. vocab 0: that of raw bytes.
TrainingData random_data(const Config& config, int64_t tokens, uint64_t seed);

GptConfig gpt_config(const Config& config, int64_t data_vocab);
Schedule schedule_of(const Config& config);
// Decayed parameters first, so that the optimiser's ranges are two.
std::vector<ParameterPtr> ordered_parameters(const Module& model);
// Error on any device but the CPU: not every op has a CUDA kernel.
void require_cpu(Device device);
std::string absolute_path(const std::string& path);

}  // namespace cbwc
