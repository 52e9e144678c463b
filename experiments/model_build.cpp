#include "experiments/model_build.h"

#include "layers/gpt.h"

namespace cbwc {

nlohmann::json shape_json(const DataShape& s) {
  return {{"vocab", s.vocab},
          {"target_vocab", s.target_vocab},
          {"classes", s.classes},
          {"channels", s.channels}};
}

DataShape shape_from_json(const nlohmann::json& json) {
  return {json.at("vocab"), json.at("target_vocab"), json.at("classes"), json.at("channels")};
}

Task task_of(const Config& config) {
  const std::string& family = config.model.family;
  if (family == "vit" || family == "swin") return Task::classification;
  if (family == "bert")
    return config.model.task == "mlm" ? Task::masked_language_model : Task::classification;
  return family == "encoder_decoder" ? Task::translation : Task::language_model;
}

bool reads_images(const Config& config) {
  return config.model.family == "vit" || config.model.family == "swin";
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

std::unique_ptr<Model> build_model(const Config& config, const DataShape& shape, uint64_t seed) {
  return std::make_unique<Gpt>(gpt_config(config, shape.vocab), seed);
}

Gpt& as_gpt(Model& model, const char* who) {
  auto* gpt = dynamic_cast<Gpt*>(&model);
  CBWC_CHECK(gpt != nullptr, who, ": needs a model of family gpt, this is ", model.describe());
  return *gpt;
}

ModelInput input_of(const Batch& b) {
  return {b.ids, b.mask, b.token_types, b.decoder_ids, b.rows, b.images};
}

ModelTargets targets_of(const Batch& b) { return {b.targets, b.mixed_targets, b.share}; }

}  // namespace cbwc
