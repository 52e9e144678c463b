#include "experiments/hf_families.h"

#include <fmt/format.h>

#include <cmath>

#include "core/text.h"
#include "layers/mlp.h"

namespace cbwc {
namespace {

using Json = nlohmann::json;

// What model.mlp_ratio and model.token_types may be at most.
constexpr double kWidestMlp = 1000;
constexpr int64_t kMostTypes = 65536;

constexpr size_t kMostStages = 16;       // each is twice as wide as the one before
constexpr double kMostSwinRatio = 1000;  // of model.mlp_ratio

// The ratio that gives this width again (mlp_width).
double ratio_of(int64_t hidden, int64_t dim, const HfOptions& o, const char* name) {
  const double ratio = static_cast<double>(hidden) / static_cast<double>(dim);
  if (!(ratio > 0 && ratio <= kWidestMlp))
    o.refuse(name, std::to_string(hidden) +
                       ": the MLP's width must be positive, and at most 1000 times the model's");
  return ratio;
}

double eps_of(HfOptions& o, const char* name) {
  const double eps = o.number({name});
  if (eps < 0) o.refuse(name, fmt::format("{}: expected at least 0", eps));
  return eps;
}

void read_width(HfOptions& o, Config::Model& m, const std::vector<std::string>& dim,
                const std::vector<std::string>& heads) {
  m.dim = o.integer(dim);
  m.heads = o.integer(heads);
  if (m.dim % m.heads != 0)
    o.refuse(heads[0], fmt::format("{}, which does not divide {} {}", m.heads, dim[0], m.dim));
}

std::string gelu_form(HfOptions& o, const char* name) {
  const std::string form = o.text({name});
  if (form == "gelu") return "erf";
  if (form == "gelu_new" || form == "gelu_pytorch_tanh") return "tanh";
  o.refuse(name, "\"" + printable(form) + "\": gelu, gelu_new and gelu_pytorch_tanh can be read");
}
const char* gelu_name(const Config::Model& m) { return m.gelu == "erf" ? "gelu" : "gelu_new"; }

int64_t width_of(const Config::Model& m) { return mlp_width(m.mlp_ratio, m.dim); }

void read_gpt(HfOptions& o, Config::Model& m, DataShape& shape) {
  shape.vocab = o.integer({"vocab_size"});
  m.layers = o.integer({"n_layer", "num_hidden_layers"});
  read_width(o, m, {"n_embd", "hidden_size"}, {"n_head", "num_attention_heads"});
  m.context = o.integer({"n_positions", "max_position_embeddings"});
  m.norm_eps = eps_of(o, "layer_norm_epsilon");
  m.gelu = gelu_form(o, "activation_function");
  m.tied_head = o.flag("tie_word_embeddings", true);
  if (o.find({"n_inner"}) != nullptr)  // null: four times n_embd
    m.mlp_ratio = ratio_of(o.integer({"n_inner"}), m.dim, o, "n_inner");
  o.require("scale_attn_weights", true, "scores are always divided by the root of the width");
  o.require("scale_attn_by_inverse_layer_idx", false, "not supported");
  o.ignore({"n_ctx", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
            "summary_proj_to_labels", "summary_type", "summary_use_proj"});
}
void write_gpt(const Config::Model& m, const DataShape& shape, Json& j) {
  j.update({{"vocab_size", shape.vocab},
            {"n_layer", m.layers},
            {"n_embd", m.dim},
            {"n_head", m.heads},
            {"n_positions", m.context},
            {"n_inner", m.mlp_ratio == 4 ? Json() : Json(width_of(m))},
            {"layer_norm_epsilon", m.norm_eps},
            {"activation_function", gelu_name(m)},
            {"tie_word_embeddings", m.tied_head}});
}

void read_opt(HfOptions& o, Config::Model& m, DataShape& shape) {
  shape.vocab = o.integer({"vocab_size"});
  m.layers = o.integer({"num_hidden_layers"});
  read_width(o, m, {"hidden_size"}, {"num_attention_heads"});
  m.context = o.integer({"max_position_embeddings"});
  m.norm_eps = 1e-5;  // in transformers' code; OPT's config has no eps
  o.require("do_layer_norm_before", true,
            "the post-norm layout of OPT-350m; none of its norms could become an RMSNorm, and it "
            "is not supported");
  m.mlp_ratio = ratio_of(o.integer({"ffn_dim"}), m.dim, o, "ffn_dim");
  o.require("activation_function", "relu", "an OPT has ReLU here");
  o.require("word_embed_proj_dim", m.dim, "a projection beside the embedding is not supported");
  o.require("enable_bias", true, "its Linears have a bias here");
  o.require("layer_norm_elementwise_affine", true, "its norms have a gain and bias here");
  o.require("_remove_final_layer_norm", false, "not supported");
  o.require("tie_word_embeddings", true, "an OPT's head is tied here");
}
void write_opt(const Config::Model& m, const DataShape& shape, Json& j) {
  CBWC_CHECK(m.norm_eps == 1e-5, "export: model.norm_eps is ", m.norm_eps,
             ", but an OPT of transformers always has 1e-5");
  j.update({{"vocab_size", shape.vocab},
            {"num_hidden_layers", m.layers},
            {"hidden_size", m.dim},
            {"word_embed_proj_dim", m.dim},
            {"num_attention_heads", m.heads},
            {"max_position_embeddings", m.context},
            {"ffn_dim", width_of(m)},
            {"do_layer_norm_before", true},
            {"activation_function", "relu"}});
}

// transformers 5 puts them into one object.
void read_rotary(HfOptions& o, Config::Model& m) {
  const char* unscaled = "rotary positions of base 10000, not scaled, are what is supported";
  if (const Json* all = o.find({"rope_parameters"})) {
    CBWC_CHECK(all->is_object(), "config.json: rope_parameters is not an object");
    for (const auto& [key, value] : all->items()) {
      const bool fine = key == "partial_rotary_factor" || value.is_null() ||
                        (key == "rope_theta" && value == 10000.0) ||
                        (key == "rope_type" && value == "default");
      if (!fine) o.refuse("rope_parameters." + key, value.dump() + ": " + unscaled);
    }
    const auto part = all->find("partial_rotary_factor");
    if (part != all->end() && part->is_number()) {
      m.rotary = part->get<double>();
      o.ignore({"partial_rotary_factor", "rope_theta", "rope_scaling"});
      return;
    }
  }
  o.require("rope_theta", 10000.0, unscaled);
  if (o.find({"rope_scaling"}) != nullptr)
    o.refuse("rope_scaling", std::string("set: ") + unscaled);
  m.rotary = o.number({"partial_rotary_factor"});
}

void read_phi(HfOptions& o, Config::Model& m, DataShape& shape) {
  shape.vocab = o.integer({"vocab_size"});
  m.layers = o.integer({"num_hidden_layers"});
  read_width(o, m, {"hidden_size"}, {"num_attention_heads"});
  m.context = o.integer({"max_position_embeddings"});
  m.norm_eps = eps_of(o, "layer_norm_eps");
  m.mlp_ratio = ratio_of(o.integer({"intermediate_size"}), m.dim, o, "intermediate_size");
  m.gelu = gelu_form(o, "hidden_act");
  if (m.gelu != "tanh") o.refuse("hidden_act", "\"gelu\": a Phi has gelu_new here");
  read_rotary(o, m);
  const double turned = std::floor(m.rotary * static_cast<double>(m.dim / m.heads));
  if (!(m.rotary >= 0 && m.rotary <= 1) || std::fmod(turned, 2) != 0)
    o.refuse("partial_rotary_factor",
             fmt::format("{}, which leaves no even part of a head's {} channels", m.rotary,
                         m.dim / m.heads));
  o.require("num_key_value_heads", m.heads, "grouped queries are not supported");
  o.require("qk_layernorm", false, "not supported");
  if (o.flag("tie_word_embeddings", false))
    o.refuse("tie_word_embeddings", "true: a Phi's head is untied here");
}
void write_phi(const Config::Model& m, const DataShape& shape, Json& j) {
  j.update({{"vocab_size", shape.vocab},
            {"num_hidden_layers", m.layers},
            {"hidden_size", m.dim},
            {"num_attention_heads", m.heads},
            {"num_key_value_heads", m.heads},
            {"max_position_embeddings", m.context},
            {"layer_norm_eps", m.norm_eps},
            {"intermediate_size", width_of(m)},
            {"hidden_act", "gelu_new"},
            {"partial_rotary_factor", m.rotary},
            {"rope_theta", 10000.0},
            {"qk_layernorm", false},
            {"tie_word_embeddings", false}});
}

void read_bloom(HfOptions& o, Config::Model& m, DataShape& shape) {
  shape.vocab = o.integer({"vocab_size"});
  m.layers = o.integer({"n_layer", "num_hidden_layers"});
  read_width(o, m, {"hidden_size", "n_embed"}, {"n_head", "num_attention_heads"});
  m.norm_eps = eps_of(o, "layer_norm_epsilon");
  // ALiBi has no table of positions: any length is computed. This is what it was trained with.
  m.context = o.find({"seq_length"}) != nullptr ? o.integer({"seq_length"}) : 2048;
  o.require("apply_residual_connection_post_layernorm", false,
            "the residual would start after the norm, which no norm survives");
  o.require("n_inner", 4 * m.dim,
            "a BLOOM of transformers has an MLP of four times hidden_size, whatever n_inner says");
  o.require("tie_word_embeddings", true, "a BLOOM's head is tied here");
  o.ignore({"masked_softmax_fusion", "offset_alibi", "skip_bias_add", "skip_bias_add_qkv",
            "attention_softmax_in_fp32", "bias_dropout_fusion", "pretraining_tp",
            "slow_but_exact"});
}
void write_bloom(const Config::Model& m, const DataShape& shape, Json& j) {
  CBWC_CHECK(m.mlp_ratio == 4, "export: model.mlp_ratio is ", m.mlp_ratio,
             ", but a BLOOM of transformers always has 4");
  j.update({{"vocab_size", shape.vocab},
            {"n_layer", m.layers},
            {"hidden_size", m.dim},
            {"n_head", m.heads},
            {"layer_norm_epsilon", m.norm_eps},
            {"seq_length", m.context},
            {"apply_residual_connection_post_layernorm", false}});
  j.erase("n_embed");
  j.erase("num_attention_heads");
}

int64_t labels_of(HfOptions& o) {
  if (const Json* names = o.find({"id2label"})) {
    if (!names->is_object() || names->empty()) o.refuse("id2label", "no list of labels");
    return static_cast<int64_t>(names->size());
  }
  return o.find({"num_labels"}) != nullptr ? o.integer({"num_labels"}) : 2;
}

void write_labels(int64_t classes, Json& j) {
  const auto names = j.find("id2label");
  if (names != j.end() && names->size() == static_cast<size_t>(classes)) return;
  Json id = Json::object(), label = Json::object();
  for (int64_t i = 0; i < classes; ++i) {
    const std::string name = fmt::format("LABEL_{}", i);
    id[std::to_string(i)] = name;
    label[name] = i;
  }
  j["id2label"] = id;
  j["label2id"] = label;
}

void read_encoder(HfOptions& o, Config::Model& m) {
  read_width(o, m, {"hidden_size"}, {"num_attention_heads"});
  m.layers = o.integer({"num_hidden_layers"});
  m.norm_eps = eps_of(o, "layer_norm_eps");
  m.mlp_ratio = ratio_of(o.integer({"intermediate_size"}), m.dim, o, "intermediate_size");
  m.gelu = gelu_form(o, "hidden_act");
}
void write_encoder(const Config::Model& m, Json& j) {
  j.update({{"hidden_size", m.dim},
            {"num_hidden_layers", m.layers},
            {"num_attention_heads", m.heads},
            {"layer_norm_eps", m.norm_eps},
            {"intermediate_size", width_of(m)},
            {"hidden_act", gelu_name(m)}});
}

void read_bert(HfOptions& o, Config::Model& m, DataShape& shape) {
  read_encoder(o, m);
  shape.vocab = o.integer({"vocab_size"});
  m.context = o.integer({"max_position_embeddings"});
  if (m.task == "classification") shape.classes = labels_of(o);
  if (o.find({"type_vocab_size"}) != nullptr) m.token_types = o.integer({"type_vocab_size"});
  if (m.token_types < 1 || m.token_types > kMostTypes)
    o.refuse("type_vocab_size", std::to_string(m.token_types) + ": expected 1 to 65536");
  o.require("position_embedding_type", "absolute", "only learned positions are supported");
  o.require("tie_word_embeddings", true, "the decoder of a BERT for masked tokens is tied here");
  o.ignore({"pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
            "pooler_size_per_head", "pooler_type"});
}
void write_bert(const Config::Model& m, const DataShape& shape, Json& j) {
  write_encoder(m, j);
  j.update({{"vocab_size", shape.vocab},
            {"max_position_embeddings", m.context},
            {"type_vocab_size", m.token_types},
            {"position_embedding_type", "absolute"}});
  if (m.task == "classification") write_labels(shape.classes, j);
}

void read_image(HfOptions& o, Config::Model& m, DataShape& shape) {
  m.image = o.integer({"image_size"});
  m.patch = o.integer({"patch_size"});
  shape.channels = o.integer({"num_channels"});
  if (m.task == "classification") shape.classes = labels_of(o);
  o.require("qkv_bias", true, "queries, keys and values have a bias here");
  o.ignore({"encoder_stride"});
}
void write_image(const Config::Model& m, const DataShape& shape, Json& j) {
  j.update({{"image_size", m.image},
            {"patch_size", m.patch},
            {"num_channels", shape.channels},
            {"qkv_bias", true}});
  if (m.task == "classification") write_labels(shape.classes, j);
}

void read_vit(HfOptions& o, Config::Model& m, DataShape& shape) {
  read_encoder(o, m);
  read_image(o, m, shape);
  if (m.image % m.patch != 0)
    o.refuse("image_size", fmt::format("{}, no multiple of patch_size {}", m.image, m.patch));
  o.ignore({"pooler_output_size", "pooler_act"});
}
void write_vit(const Config::Model& m, const DataShape& shape, Json& j) {
  CBWC_CHECK(m.pool == "class_token",
             "export: a ViT of transformers reads its class token; "
             "model.pool is ",
             m.pool);
  write_encoder(m, j);
  write_image(m, shape, j);
}

void check_stages(const HfOptions& o, const Config::Model& m) {
  const size_t stages = m.depths.size();
  if (stages == 0 || stages > kMostStages)
    o.refuse("depths", fmt::format("of {} stages, expected 1 to {}", stages, kMostStages));
  if (m.stage_heads.size() != stages)
    o.refuse("num_heads",
             fmt::format("for {} stages, depths for {}", m.stage_heads.size(), stages));
  for (size_t i = 0; i < stages; ++i)
    if ((m.dim << i) % m.stage_heads[i] != 0)
      o.refuse("num_heads", fmt::format("{} in stage {}, which does not divide its width {}",
                                        m.stage_heads[i], i, m.dim << i));
  const double width = m.mlp_ratio * static_cast<double>(m.dim);
  if (!(width >= 1 && m.mlp_ratio <= kMostSwinRatio))
    o.refuse("mlp_ratio", fmt::format("{}: no width of an MLP", m.mlp_ratio));
}

void read_swin(HfOptions& o, Config::Model& m, DataShape& shape) {
  read_image(o, m, shape);
  m.dim = o.integer({"embed_dim"});
  m.depths = o.integers("depths");
  m.stage_heads = o.integers("num_heads");
  m.window = o.integer({"window_size"});
  m.mlp_ratio = o.number({"mlp_ratio"});
  check_stages(o, m);
  m.norm_eps = eps_of(o, "layer_norm_eps");
  m.gelu = gelu_form(o, "hidden_act");
  if (m.norm_eps != 1e-5)
    o.refuse("layer_norm_eps", std::to_string(m.norm_eps) +
                                   ": the patch and merging norms of a Swin have 1e-5 always, and "
                                   "one model has one eps here");
  o.require("use_absolute_embeddings", false, "not supported");
  o.ignore(
      {"hidden_size", "num_layers", "path_norm", "out_features", "out_indices", "stage_names"});
}
void write_swin(const Config::Model& m, const DataShape& shape, Json& j) {
  CBWC_CHECK(m.norm_eps == 1e-5 && m.patch_norm,
             "export: a Swin of transformers has norms of eps 1e-5 and a patch norm; "
             "model.norm_eps is ",
             m.norm_eps);
  write_image(m, shape, j);
  j.update({{"embed_dim", m.dim},
            {"depths", m.depths},
            {"num_heads", m.stage_heads},
            {"window_size", m.window},
            {"mlp_ratio", m.mlp_ratio},
            {"layer_norm_eps", m.norm_eps},
            {"hidden_act", gelu_name(m)},
            {"use_absolute_embeddings", false}});
  j.erase("hidden_size");  // both follow from the others
  j.erase("num_layers");
}

constexpr HfFamily kFamilies[] = {
    {"gpt", read_gpt, write_gpt},    {"opt", read_opt, write_opt},
    {"phi", read_phi, write_phi},    {"bloom", read_bloom, write_bloom},
    {"bert", read_bert, write_bert}, {"vit", read_vit, write_vit},
    {"swin", read_swin, write_swin}};

}  // namespace

const HfFamily& hf_family(const std::string& name) {
  for (const HfFamily& family : kFamilies)
    if (name == family.name) return family;
  detail::fail("model.family ", name, ": Hugging Face's models have no such family");
}

}  // namespace cbwc
