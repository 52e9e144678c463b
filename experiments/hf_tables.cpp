#include "experiments/hf_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"

namespace cbwc {
namespace {

// What a row stands for: one parameter, or a module's weight and bias.
enum class Kind { raw, table, linear, no_bias, conv1d, norm, qkv, fused, patches, leading };

// {} is a block's number. qkv: theirs holds (q k v), the names of three Linears.
struct Row {
  const char *ours, *theirs;
  Kind kind = Kind::linear;
};

constexpr Row kGpt2[] = {{"wte", "transformer.wte", Kind::table},
                         {"wpe", "transformer.wpe", Kind::table},
                         {"blocks.{}.norm1", "transformer.h.{}.ln_1", Kind::norm},
                         {"blocks.{}.attn.qkv", "transformer.h.{}.attn.c_attn", Kind::conv1d},
                         {"blocks.{}.attn.out", "transformer.h.{}.attn.c_proj", Kind::conv1d},
                         {"blocks.{}.norm2", "transformer.h.{}.ln_2", Kind::norm},
                         {"blocks.{}.mlp.up", "transformer.h.{}.mlp.c_fc", Kind::conv1d},
                         {"blocks.{}.mlp.down", "transformer.h.{}.mlp.c_proj", Kind::conv1d},
                         {"norm", "transformer.ln_f", Kind::norm}};

constexpr Row kOpt[] = {
    {"wte", "model.decoder.embed_tokens", Kind::table},
    {"wpe", "model.decoder.embed_positions", Kind::table},
    {"blocks.{}.norm1", "model.decoder.layers.{}.self_attn_layer_norm", Kind::norm},
    {"blocks.{}.attn.qkv", "model.decoder.layers.{}.self_attn.(q_proj k_proj v_proj)", Kind::qkv},
    {"blocks.{}.attn.out", "model.decoder.layers.{}.self_attn.out_proj"},
    {"blocks.{}.norm2", "model.decoder.layers.{}.final_layer_norm", Kind::norm},
    {"blocks.{}.mlp.up", "model.decoder.layers.{}.fc1"},
    {"blocks.{}.mlp.down", "model.decoder.layers.{}.fc2"},
    {"norm", "model.decoder.final_layer_norm", Kind::norm}};

constexpr Row kPhi[] = {
    {"wte", "model.embed_tokens", Kind::table},
    {"blocks.{}.norm1", "model.layers.{}.input_layernorm", Kind::norm},
    {"blocks.{}.attn.qkv", "model.layers.{}.self_attn.(q_proj k_proj v_proj)", Kind::qkv},
    {"blocks.{}.attn.out", "model.layers.{}.self_attn.dense"},
    {"blocks.{}.mlp.up", "model.layers.{}.mlp.fc1"},
    {"blocks.{}.mlp.down", "model.layers.{}.mlp.fc2"},
    {"norm", "model.final_layernorm", Kind::norm},
    {"head", "lm_head"}};

constexpr Row kBloom[] = {
    {"wte", "transformer.word_embeddings", Kind::table},
    {"embedding_norm", "transformer.word_embeddings_layernorm", Kind::norm},
    {"blocks.{}.norm1", "transformer.h.{}.input_layernorm", Kind::norm},
    {"blocks.{}.attn.qkv", "transformer.h.{}.self_attention.query_key_value", Kind::fused},
    {"blocks.{}.attn.out", "transformer.h.{}.self_attention.dense"},
    {"blocks.{}.norm2", "transformer.h.{}.post_attention_layernorm", Kind::norm},
    {"blocks.{}.mlp.up", "transformer.h.{}.mlp.dense_h_to_4h"},
    {"blocks.{}.mlp.down", "transformer.h.{}.mlp.dense_4h_to_h"},
    {"norm", "transformer.ln_f", Kind::norm}};

constexpr Row kBert[] = {
    {"tokens", "bert.embeddings.word_embeddings", Kind::table},
    {"positions", "bert.embeddings.position_embeddings", Kind::table},
    {"types", "bert.embeddings.token_type_embeddings", Kind::table},
    {"embedding_norm", "bert.embeddings.LayerNorm", Kind::norm},
    {"blocks.{}.attn.qkv", "bert.encoder.layer.{}.attention.self.(query key value)", Kind::qkv},
    {"blocks.{}.attn.out", "bert.encoder.layer.{}.attention.output.dense"},
    {"blocks.{}.norm1", "bert.encoder.layer.{}.attention.output.LayerNorm", Kind::norm},
    {"blocks.{}.mlp.up", "bert.encoder.layer.{}.intermediate.dense"},
    {"blocks.{}.mlp.down", "bert.encoder.layer.{}.output.dense"},
    {"blocks.{}.norm2", "bert.encoder.layer.{}.output.LayerNorm", Kind::norm}};
constexpr Row kBertMlm[] = {{"mlm.dense", "cls.predictions.transform.dense"},
                            {"mlm.norm", "cls.predictions.transform.LayerNorm", Kind::norm},
                            {"mlm.bias", "cls.predictions.bias", Kind::raw}};
constexpr Row kBertClassifier[] = {{"pooler", "bert.pooler.dense"}, {"classifier", "classifier"}};

constexpr Row kVit[] = {
    {"class_token.weight", "vit.embeddings.cls_token", Kind::leading},
    {"positions.weight", "vit.embeddings.position_embeddings", Kind::leading},
    {"patch.projection", "vit.embeddings.patch_embeddings.projection", Kind::patches},
    {"blocks.{}.norm1", "vit.encoder.layer.{}.layernorm_before", Kind::norm},
    {"blocks.{}.attn.qkv", "vit.encoder.layer.{}.attention.attention.(query key value)", Kind::qkv},
    {"blocks.{}.attn.out", "vit.encoder.layer.{}.attention.output.dense"},
    {"blocks.{}.norm2", "vit.encoder.layer.{}.layernorm_after", Kind::norm},
    {"blocks.{}.mlp.up", "vit.encoder.layer.{}.intermediate.dense"},
    {"blocks.{}.mlp.down", "vit.encoder.layer.{}.output.dense"},
    {"norm", "vit.layernorm", Kind::norm}};

// {s} is a stage's number.
constexpr Row kSwin[] = {
    {"patch.projection", "swin.embeddings.patch_embeddings.projection", Kind::patches},
    {"patch_norm", "swin.embeddings.norm", Kind::norm},
    {"norm", "swin.layernorm", Kind::norm}};
constexpr Row kSwinBlock[] = {
    {"stages.{s}.blocks.{}.norm1", "swin.encoder.layers.{s}.blocks.{}.layernorm_before",
     Kind::norm},
    {"stages.{s}.blocks.{}.attn.qkv",
     "swin.encoder.layers.{s}.blocks.{}.attention.self.(query key value)", Kind::qkv},
    {"stages.{s}.blocks.{}.attn.bias_table",
     "swin.encoder.layers.{s}.blocks.{}.attention.self.relative_position_bias_table", Kind::raw},
    {"stages.{s}.blocks.{}.attn.out", "swin.encoder.layers.{s}.blocks.{}.attention.output.dense"},
    {"stages.{s}.blocks.{}.norm2", "swin.encoder.layers.{s}.blocks.{}.layernorm_after", Kind::norm},
    {"stages.{s}.blocks.{}.mlp.up", "swin.encoder.layers.{s}.blocks.{}.intermediate.dense"},
    {"stages.{s}.blocks.{}.mlp.down", "swin.encoder.layers.{s}.blocks.{}.output.dense"}};
constexpr Row kSwinMerge[] = {
    {"merges.{s}.norm", "swin.encoder.layers.{s}.downsample.norm", Kind::norm},
    {"merges.{s}.reduction", "swin.encoder.layers.{s}.downsample.reduction", Kind::no_bias}};

constexpr Row kImageHead[] = {{"head", "classifier"}};  // of both

std::string replace(const std::string& text, const std::string& what, int64_t number) {
  std::string out;
  size_t from = 0;
  for (size_t at; (at = text.find(what, from)) != std::string::npos; from = at + what.size()) {
    out.append(text, from, at - from);
    out += std::to_string(number);
  }
  return out.append(text, from);
}

// "a.(q k v)" -> a.q, a.k, a.v; a name without brackets is itself.
std::vector<std::string> split_names(const std::string& name) {
  const size_t open = name.find('(');
  if (open == std::string::npos) return {name};
  std::vector<std::string> out;
  std::string part;
  for (size_t i = open + 1; i < name.size(); ++i) {
    if (name[i] != ' ' && name[i] != ')') {
      part += name[i];
      continue;
    }
    out.push_back(name.substr(0, open) + part);
    part.clear();
  }
  return out;
}

void add_pair(HfTable& table, const std::string& ours, const std::vector<std::string>& modules,
              const char* our_end, const char* their_end, HfLayout layout) {
  HfTensor t{ours + our_end, {}, layout, 0};
  for (const std::string& module : modules) t.theirs.push_back(module + their_end);
  table.tensors.push_back(t);
}

void add_row(HfTable& table, const std::string& ours, const std::string& theirs, Kind kind) {
  const std::vector<std::string> modules = split_names(theirs);
  const auto both = [&](HfLayout weight, HfLayout bias) {
    add_pair(table, ours, modules, ".weight", ".weight", weight);
    add_pair(table, ours, modules, ".bias", ".bias", bias);
  };
  switch (kind) {
    case Kind::raw:
      return add_pair(table, ours, modules, "", "", HfLayout::same);
    case Kind::leading:
      add_pair(table, ours, modules, "", "", HfLayout::same);
      table.tensors.back().leading = 1;
      return;
    case Kind::table:
    case Kind::no_bias:
      return add_pair(table, ours, modules, ".weight", ".weight", HfLayout::same);
    case Kind::norm:
      add_pair(table, ours, modules, ".gamma", ".weight", HfLayout::same);
      return add_pair(table, ours, modules, ".beta", ".bias", HfLayout::same);
    case Kind::conv1d:
      return both(HfLayout::transposed, HfLayout::same);
    case Kind::qkv:
      return both(HfLayout::stacked, HfLayout::stacked);
    case Kind::fused:
      return both(HfLayout::per_head, HfLayout::per_head);
    case Kind::patches:
      return both(HfLayout::patches, HfLayout::same);
    case Kind::linear:
      break;
  }
  both(HfLayout::same, HfLayout::same);
}

template <size_t N>
void add_rows(HfTable& table, const Row (&rows)[N], int64_t layers, int64_t stage = 0) {
  for (const Row& row : rows) {
    const std::string ours = replace(row.ours, "{s}", stage),
                      theirs = replace(row.theirs, "{s}", stage);
    const bool each = ours.find("{}") != std::string::npos;
    for (int64_t i = 0; i < (each ? layers : 1); ++i)
      add_row(table, replace(ours, "{}", i), replace(theirs, "{}", i), row.kind);
  }
}

constexpr const char* kTied = "config.json says that they are tied";

HfTable bert_table(const Config::Model& m) {
  HfTable t;
  t.prefix = "bert.";
  add_rows(t, kBert, m.layers);
  t.unread = {{"(bert\\.)?embeddings\\.position_ids", "the numbers 0, 1, 2, ..."},
              {"(bert\\.)?embeddings\\.token_type_ids", "zeros"},
              {"cls\\.seq_relationship\\.(weight|bias)", "the head for next sentences", true}};
  if (m.task == "mlm") {
    add_rows(t, kBertMlm, m.layers);
    t.twins = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight", kTied},
               {"cls.predictions.decoder.bias", "cls.predictions.bias",
                "they are one parameter of a BERT for masked tokens"}};
    t.head = "cls.predictions.decoder";
  }
  if (m.task == "classification")
    add_rows(t, kBertClassifier, m.layers);
  else
    t.unread.push_back(
        {"(bert\\.)?pooler\\.dense\\.(weight|bias)", "the pooler, which nothing here reads", true});
  return t;
}

HfTable swin_table(const Config::Model& m) {
  HfTable t;
  t.prefix = "swin.";
  add_rows(t, kSwin, 0);
  if (m.task == "classification") add_rows(t, kImageHead, 0);
  const auto stages = static_cast<int64_t>(m.depths.size());
  for (int64_t s = 0; s < stages; ++s) {
    add_rows(t, kSwinBlock, m.depths[static_cast<size_t>(s)], s);
    if (s + 1 < stages) add_rows(t, kSwinMerge, 0, s);
  }
  t.unread = {{".*\\.relative_position_index", "follows from the window's size", true},
              {"(swin\\.)?embeddings\\.mask_token", "for masked images only", true}};
  return t;
}

template <size_t N>
HfTable decoder_table(const Row (&rows)[N], const Config::Model& m, const std::string& prefix) {
  HfTable t;
  t.prefix = prefix;
  add_rows(t, rows, m.layers);
  const bool tied = m.family == "gpt" ? m.tied_head : m.family != "phi";
  if (tied) {
    t.twins = {{"lm_head.weight", t.tensors[0].theirs[0], kTied}};
    t.head = "lm_head";
  } else if (m.family == "gpt") {
    add_row(t, "head", "lm_head", Kind::no_bias);
  }
  t.unread = {{"(transformer\\.)?h\\.[0-9]+\\.attn\\.(bias|masked_bias)", "the causal mask"},
              {"(model\\.)?layers\\.[0-9]+\\.self_attn\\.rotary_emb\\.inv_freq",
               "follows from the width of a head"}};
  return t;
}

HfTable vit_table(const Config::Model& m) {
  HfTable t;
  t.prefix = "vit.";
  add_rows(t, kVit, m.layers);
  if (m.task == "classification") add_rows(t, kImageHead, 0);
  t.unread = {
      {"(vit\\.)?embeddings\\.mask_token", "for masked images only", true},
      {"(vit\\.)?pooler\\.dense\\.(weight|bias)", "the pooler, which nothing here reads", true}};
  return t;
}

HfTable table_as_trained(const Config& config) {
  const Config::Model& m = config.model;
  if (m.family == "gpt") return decoder_table(kGpt2, m, "transformer.");
  if (m.family == "opt") return decoder_table(kOpt, m, "model.");
  if (m.family == "phi") return decoder_table(kPhi, m, "model.");
  if (m.family == "bloom") return decoder_table(kBloom, m, "transformer.");
  if (m.family == "bert") return bert_table(m);
  if (m.family == "swin") return swin_table(m);
  CBWC_CHECK(m.family == "vit", "model.family ", m.family,
             ": Hugging Face's models have no such family");
  return vit_table(m);
}

// What a fold made of the tied head (method.md 5, "Ties").
void settle_tie(HfTable& table, const FoldPlan& plan) {
  const auto tie = std::find_if(table.twins.begin(), table.twins.end(), [&](const HfTwin& twin) {
    return twin.name == table.head + ".weight";
  });
  if (plan.ties.empty() || tie == table.twins.end()) return;
  const std::string& head = plan.ties[0].head;
  if (plan.tied == HeadTie::rank_one)
    table.tensors.push_back({head + ".row_means", {table.head + ".row_means"}});
  if (plan.tied != HeadTie::untie) return;
  table.tensors.push_back({head + ".weight", {tie->name}});
  table.twins.erase(tie);
}

}  // namespace

HfTable hf_table(const Config& config, const std::vector<FoldPlan>& folds) {
  HfTable table = table_as_trained(config);
  for (const FoldPlan& plan : folds) settle_tie(table, plan);
  return table;
}

static bool is_bare_body(const Config& config) { return config.model.task == "hidden_states"; }

HfTable written_table(const Config& config, const std::vector<FoldPlan>& folds) {
  HfTable table = hf_table(config, folds);
  if (!is_bare_body(config)) return table;
  for (HfTensor& t : table.tensors)
    for (std::string& name : t.theirs) name = name.substr(table.prefix.size());
  return table;
}

std::string written_name(const Config& config, const std::string& name) {
  const std::string prefix = hf_table(config).prefix;
  const bool has = name.starts_with(prefix), of_head = name.starts_with("cls.");
  if (of_head || has != is_bare_body(config)) return name;
  return has ? name.substr(prefix.size()) : prefix + name;
}

std::string hf_module(const HfTable& table, const std::string& ours) {
  for (const HfTensor& t : table.tensors) {
    const size_t dot = t.ours.rfind('.');
    if (t.ours.compare(0, dot, ours) != 0) continue;
    return t.theirs[0].substr(0, t.theirs[0].rfind('.'));
  }
  detail::fail("transformers' model has no module for '", ours, "'");
}

}  // namespace cbwc
