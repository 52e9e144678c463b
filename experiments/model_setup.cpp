#include "experiments/model_setup.h"

#include <algorithm>
#include <filesystem>

#include "core/device_services.h"
#include "core/rng.h"
#include "optim/decay.h"

namespace cbwc {

TrainingData open_data(const Config& config, const std::string& eval_split) {
  CBWC_CHECK(
      !config.data.file.empty(),
      "data.file is not set: make one with `cbwc data wordnet_lm --out FILE.h5` and pass --set "
      "data.file=FILE.h5");
  const TokenFile file = TokenFile::open(config.data.file, {config.data.file_locking});
  TrainingData data;
  data.train = file.split(config.data.train_split);
  if (!eval_split.empty()) data.eval = file.split(eval_split);
  data.vocab = file.vocab_size();
  data.checksum = file.checksum();
  data.tokenizer = file.tokenizer();
  data.note = "tokens of " + config.data.file + " (" + file.description() + ")";
  CBWC_CHECK(config.model.vocab == 0 || config.model.vocab >= data.vocab, "model.vocab is ",
             config.model.vocab, ", but ", config.data.file, " has token ids up to ",
             data.vocab - 1);
  return data;
}

TrainingData random_data(const Config& config, int64_t tokens, uint64_t seed) {
  TrainingData data;
  data.vocab = config.model.vocab > 0 ? config.model.vocab : Tokenizer::bytes().vocab_size();
  Rng rng(seed, "random tokens");
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  for (int32_t& id : ids) id = static_cast<int32_t>(rng.below(static_cast<uint64_t>(data.vocab)));
  data.train = std::make_shared<TokenSplit>(ids, std::vector<int64_t>{0}, data.vocab);
  data.eval = data.train;
  data.checksum = "random";
  data.note = fmt::format("seeded random tokens (vocabulary {}), not text", data.vocab);
  return data;
}

GptConfig gpt_config(const Config& config, int64_t data_vocab) {
  const Config::Model& m = config.model;
  CBWC_CHECK(m.family == "gpt", "model.family is ", m.family, ", expected gpt");
  GptConfig g;
  g.vocab = m.vocab > 0 ? m.vocab : data_vocab;
  g.layers = m.layers;
  g.dim = m.dim;
  g.heads = m.heads;
  g.context = m.context;
  g.norm = parse_norm(m.norm);
  g.norm_eps = m.norm_eps;
  g.norm_bias = m.norm_bias;
  g.placement = parse_placement(m.placement);
  g.qk_norm = parse_qk_norm(m.qk_norm);
  g.tied_head = m.tied_head;
  g.folded_tie = parse_folded_tie(m.folded_tie);
  g.dropout = m.dropout;
  g.attention_dropout = m.attention_dropout;
  g.dropout_placement = parse_dropout_placement(m.dropout_placement);
  g.gelu = m.gelu == "erf" ? Gelu::erf : Gelu::tanh;
  g.dtype = parse_dtype(m.dtype);
  g.init_std = m.init_std;
  return g;
}

Schedule schedule_of(const Config& config) {
  Schedule s;
  s.decline = parse_decline(config.optim.schedule);
  s.peak = config.optim.lr;
  s.minimum = config.optim.lr * config.optim.min_lr_ratio;
  s.warmup = config.optim.warmup;
  s.total = config.run.steps;
  check_schedule(s);
  return s;
}

std::vector<ParameterPtr> ordered_parameters(const Module& model) {
  std::vector<ParameterPtr> parameters = model.parameters();
  std::stable_partition(parameters.begin(), parameters.end(),
                        [](const ParameterPtr& p) { return decays(p->role()); });
  return parameters;
}

void require_cpu(Device device) {
  if (device == Device::cpu) return;
  CBWC_CHECK(cuda::built(), "--device cuda: this build has no CUDA kernels (cmake --preset cuda)");
  CBWC_CHECK(cuda::device_count() > 0, "--device cuda: no GPU was found on this machine");
  detail::fail("--device cuda: not every operation has a CUDA kernel yet, use --device cpu");
}

std::string absolute_path(const std::string& path) {
  if (path.empty()) return path;
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace cbwc
