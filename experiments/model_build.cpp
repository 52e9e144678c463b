#include "experiments/model_build.h"

#include "layers/baselines.h"
#include "layers/bert.h"
#include "layers/decoder.h"
#include "layers/encoder_decoder.h"
#include "layers/gpt.h"
#include "layers/mlp.h"
#include "layers/swin.h"
#include "layers/vit.h"

namespace cbwc {
namespace {

int64_t or_else(int64_t value, int64_t otherwise) { return value > 0 ? value : otherwise; }

// What TextConfig and VisionConfig both have.
template <class Target>
void copy_common(const Config::Model& m, Target& c) {
  c.norm = parse_norm(m.norm);
  c.norm_eps = m.norm_eps;
  c.norm_bias = m.norm_bias;
  c.dropout = m.dropout;
  c.attention_dropout = m.attention_dropout;
  c.dropout_placement = parse_dropout_placement(m.dropout_placement);
  c.dtype = parse_dtype(m.dtype);
  c.init_std = m.init_std;
}

Gelu gelu_of(const Config::Model& m) { return m.gelu == "erf" ? Gelu::erf : Gelu::tanh; }

int64_t hidden_of(const Config::Model& m) {
  const double product = m.mlp_ratio * static_cast<double>(m.dim);
  const int64_t hidden = mlp_width(m.mlp_ratio, m.dim);
  CBWC_CHECK(hidden >= 1 && product - static_cast<double>(hidden) < 1e-9 * product,
             "model.mlp_ratio ", m.mlp_ratio, " times model.dim ", m.dim, " is ", product,
             ", expected a whole number");
  return hidden;
}

void copy_text(const Config::Model& m, const DataShape& shape, TextConfig& c) {
  copy_common(m, c);
  c.vocab = or_else(m.vocab, shape.vocab);
  c.layers = m.layers;
  c.dim = m.dim;
  c.heads = m.heads;
  c.context = m.context;
  c.hidden = hidden_of(m);
}

BertConfig bert_config(const Config::Model& m, const DataShape& shape) {
  BertConfig c;
  copy_text(m, shape, c);
  c.task = parse_bert_task(m.task);
  c.classes = or_else(m.classes, shape.classes);
  c.types = m.token_types;
  c.gelu = gelu_of(m);
  return c;
}

// The presets say positions, blocks, activation and head; placement and head are not for them.
DecoderConfig decoder_config(const Config::Model& m, const DataShape& shape) {
  TextConfig sizes;
  copy_text(m, shape, sizes);
  if (m.family == "opt") return opt_config(sizes);
  return m.family == "phi" ? phi_config(sizes, m.rotary) : bloom_config(sizes);
}

EncoderDecoderConfig encoder_decoder_config(const Config::Model& m, const DataShape& shape) {
  EncoderDecoderConfig c;
  copy_text(m, shape, c);
  c.target_vocab = shape.target_vocab;
  c.decoder_layers = m.decoder_layers;
  c.placement = parse_placement(m.placement);
  c.activation = m.gelu == "erf" ? Activation::gelu_erf : Activation::gelu_tanh;
  c.tied_head = m.tied_head;
  return c;
}

void copy_image(const Config::Model& m, const DataShape& shape, VisionConfig& c) {
  copy_common(m, c);
  c.image = m.image;
  c.patch = m.patch;
  c.channels = shape.channels;
  c.dim = m.dim;
  c.mlp_ratio = m.mlp_ratio;
  c.drop_path = m.drop_path;
  c.gelu = gelu_of(m);
  c.classes = or_else(m.classes, shape.classes);
  c.head = m.task != "hidden_states";
}

SwinConfig swin_config(const Config::Model& m, const DataShape& shape) {
  SwinConfig c;
  copy_image(m, shape, c);
  c.depths = m.depths;
  c.stage_heads = m.stage_heads;
  c.window = m.window;
  c.patch_norm = m.patch_norm;
  return c;
}

VitConfig vit_config(const Config::Model& m, const DataShape& shape) {
  VitConfig c;
  copy_image(m, shape, c);
  c.layers = m.layers;
  c.heads = m.heads;
  c.pool = parse_pool(m.pool);
  c.qk_norm = parse_qk_norm(m.qk_norm);
  return c;
}

BaselineConfig baseline_config(const Config::Model& m, const DataShape& shape) {
  BaselineConfig c;
  c.kind = parse_baseline(m.family);
  c.channels = shape.channels;
  c.image = m.image;
  c.vocab = or_else(m.vocab, shape.vocab);
  c.classes = or_else(m.classes, shape.classes);
  c.dtype = parse_dtype(m.dtype);
  c.init_std = m.init_std;
  return c;
}

}  // namespace

nlohmann::json shape_json(const DataShape& s) {
  return {{"vocab", s.vocab},
          {"target_vocab", s.target_vocab},
          {"classes", s.classes},
          {"channels", s.channels}};
}

DataShape shape_from_json(const nlohmann::json& json) {
  return {json.at("vocab"), json.at("target_vocab"), json.at("classes"), json.at("channels")};
}

bool is_baseline(const std::string& family) {
  return family == "linear" || family == "mlp" || family == "bag_of_words";
}

std::string arm_of(const Config& config) {
  return is_baseline(config.model.family) ? config.model.family : config.model.norm;
}

Task task_of(const Config& config) {
  const std::string& family = config.model.family;
  if (is_baseline(family)) return Task::classification;
  if (config.model.task == "hidden_states") return Task::hidden_states;
  if (reads_images(config)) return Task::classification;
  if (family == "bert")
    return config.model.task == "mlm" ? Task::masked_language_model : Task::classification;
  return family == "encoder_decoder" ? Task::translation : Task::language_model;
}

bool reads_images(const Config& config) {
  const std::string& family = config.model.family;
  return family == "vit" || family == "swin" || family == "linear" || family == "mlp";
}

const char* target_unit(const Config& config) {
  if (reads_images(config)) return "images";
  return task_of(config) == Task::classification ? "texts" : "tokens";
}

GptConfig gpt_config(const Config& config, int64_t data_vocab) {
  const Config::Model& m = config.model;
  CBWC_CHECK(m.family == "gpt", "model.family is ", m.family, ", expected gpt");
  DataShape shape;
  shape.vocab = data_vocab;
  GptConfig g;
  copy_text(m, shape, g);
  g.placement = parse_placement(m.placement);
  g.qk_norm = parse_qk_norm(m.qk_norm);
  g.tied_head = m.tied_head;
  g.folded_tie = parse_folded_tie(m.folded_tie);
  g.gelu = gelu_of(m);
  return g;
}

std::unique_ptr<Model> build_model(const Config& config, const DataShape& shape, uint64_t seed) {
  const Config::Model& m = config.model;
  if (m.family == "gpt") return std::make_unique<Gpt>(gpt_config(config, shape.vocab), seed);
  if (m.family == "opt" || m.family == "phi" || m.family == "bloom")
    return std::make_unique<Decoder>(decoder_config(m, shape), seed);
  if (m.family == "bert") return std::make_unique<Bert>(bert_config(m, shape), seed);
  if (m.family == "encoder_decoder")
    return std::make_unique<EncoderDecoder>(encoder_decoder_config(m, shape), seed);
  if (m.family == "swin") return std::make_unique<Swin>(swin_config(m, shape), seed);
  if (m.family == "vit") return std::make_unique<Vit>(vit_config(m, shape), seed);
  if (is_baseline(m.family))
    return std::make_unique<BaselineModel>(baseline_config(m, shape), seed);
  throw Error("model.family " + m.family + " is not known");
}

ModelInput input_of(const Batch& b) {
  return {b.ids, b.mask, b.token_types, b.decoder_ids, b.rows, b.images};
}

ModelTargets targets_of(const Batch& b) { return {b.targets, b.mixed_targets, b.share}; }

}  // namespace cbwc
