// import refuses what it would get wrong, each in one line that names it; what it writes is a run
// folder that the other commands read.
#include <algorithm>
#include <functional>

#include "experiments/detect.h"
#include "experiments/hf_folder.h"
#include "experiments/hf_import.h"
#include "experiments/initial_weights.h"
#include "experiments/json_output.h"
#include "experiments/model_graph.h"
#include "layers/mlp.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using namespace cbwc::testing;
using nlohmann::json;

namespace {

using Items = std::vector<SafetensorsItem>;

std::string fixture_folder(const std::string& family) {
  return std::string(CBWC_SOURCE_DIR) + "/tests/fixtures/hf_" + family;
}

json fixture_config(const std::string& family) {
  return read_json(fixture_folder(family) + "/config.json");
}

Items fixture_items(const std::string& family) {
  const Safetensors file(fixture_folder(family));
  Items items;
  for (const Safetensors::Entry& e : file.entries()) items.push_back({e.name, file.read(e)});
  return items;
}

// What import says to this model; "" when it reads it.
std::string answer(const json& config, const Items& items,
                   std::vector<std::string>* notes = nullptr,
                   const std::vector<std::string>& allowed = {}) {
  const TemporaryFolder folder;
  write_json(folder.file("config.json"), config);
  write_safetensors(folder.file("model.safetensors"), items);
  const std::string message = message_of<Error>([&] {
    const HfImport m = import_model(folder.path(), allowed);
    if (notes != nullptr) *notes = m.notes;
  });
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

void check_says(const std::string& message, const std::string& part) {
  INFO(message);
  CHECK(message.find(part) != std::string::npos);
}

std::string with_option(const std::string& family, const std::string& key, const json& value) {
  json config = fixture_config(family);
  config[key] = value;
  return answer(config, fixture_items(family));
}

Items without(Items items, const std::string& name) {
  std::erase_if(items, [&](const auto& item) { return item.name == name; });
  return items;
}

void check_has(const std::vector<std::string>& lines, const std::string& line) {
  INFO(line);
  CHECK(std::find(lines.begin(), lines.end(), line) != lines.end());
}

std::map<std::string, std::vector<double>> state_of(const json& config, const Items& items) {
  const TemporaryFolder folder;
  write_json(folder.file("config.json"), config);
  write_safetensors(folder.file("model.safetensors"), items);
  std::map<std::string, std::vector<double>> out;
  for (const auto& [name, value] : import_model(folder.path()).model->state())
    out[name] = value.to_vector<double>();
  return out;
}

Tensor zeros(Shape shape) { return Tensor::zeros(std::move(shape), DType::f64); }

}  // namespace

TEST_CASE("options that would change the function are refused by name") {
  struct Case {
    const char *family, *key;
    json value;
  };
  const std::vector<Case> cases = {{"gpt2", "scale_attn_by_inverse_layer_idx", true},
                                   {"gpt2", "scale_attn_weights", false},
                                   {"gpt2", "activation_function", "relu"},
                                   {"gpt2", "add_cross_attention", true},
                                   {"opt", "do_layer_norm_before", false},
                                   {"opt", "word_embed_proj_dim", 8},
                                   {"opt", "activation_function", "gelu"},
                                   {"opt", "enable_bias", false},
                                   {"opt", "tie_word_embeddings", false},
                                   {"phi", "rope_theta", 5000.0},
                                   {"phi", "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}},
                                   {"phi", "qk_layernorm", true},
                                   {"phi", "num_key_value_heads", 1},
                                   {"phi", "tie_word_embeddings", true},
                                   {"bloom", "apply_residual_connection_post_layernorm", true},
                                   {"bert_mlm", "position_embedding_type", "relative_key"},
                                   {"bert_mlm", "is_decoder", true},
                                   {"bert_mlm", "hidden_act", "silu"},
                                   {"vit", "qkv_bias", false},
                                   {"swin", "use_absolute_embeddings", true},
                                   {"swin", "layer_norm_eps", 1e-6},
                                   {"gpt2", "cross_attention_hidden_size", 16},
                                   {"opt", "activation_function", "silu"},
                                   {"phi", "hidden_act", "relu"},
                                   {"bloom", "n_inner", 24},
                                   {"bloom", "tie_word_embeddings", false},
                                   {"bert_mlm", "add_cross_attention", true},
                                   {"bert_mlm", "tie_word_embeddings", false},
                                   {"vit", "hidden_act", "quick_gelu"},
                                   {"swin", "hidden_act", "relu"},
                                   {"gpt2", "sliding_window", 4},
                                   {"vit", "new_option", "on"}};
  for (const Case& c : cases) {
    INFO(c.family << " " << c.key);
    check_says(with_option(c.family, c.key, c.value), c.key);
  }
  check_says(with_option("opt", "do_layer_norm_before", false), "350m");
  check_says(with_option("gpt2", "architectures", {"GPT2DoubleHeadsModel"}),
             "known are GPT2LMHead");
  for (const char* family : {"ViT", "Swin"}) {
    const std::string masked = std::string(family) + "ForMaskedImageModeling";
    check_says(with_option("vit", "architectures", {masked}),
               "architecture " + masked + " cannot be read");
  }
  check_says(with_option("bloom", "n_inner", 24), "a BLOOM of transformers has an MLP of four");
  check_says(with_option("gpt2", "model_type", "opt"), "model_type");
  check_says(with_option("gpt2", "n_layer", "two"), "n_layer");
  check_says(with_option("gpt2", "hidden_size", 32), "different values");
  // Controls: options that do not matter, and one that the user says does not.
  CHECK(with_option("gpt2", "resid_pdrop", 0.3).empty());
  CHECK(with_option("gpt2", "reorder_and_upcast_attn", true).empty());  // precision alone
  json config = fixture_config("gpt2");
  config["sliding_window"] = nullptr;
  CHECK(answer(config, fixture_items("gpt2")).empty());
  config["sliding_window"] = 4;
  CHECK(answer(config, fixture_items("gpt2"), nullptr, {"sliding_window"}).empty());
}

TEST_CASE("eps, activation and sizes come from config.json, never from defaults") {
  for (const auto& [family, key] :
       std::vector<std::pair<std::string, std::string>>{{"gpt2", "layer_norm_epsilon"},
                                                        {"gpt2", "activation_function"},
                                                        {"phi", "layer_norm_eps"},
                                                        {"phi", "partial_rotary_factor"},
                                                        {"bloom", "layer_norm_epsilon"},
                                                        {"bert_mlm", "layer_norm_eps"},
                                                        {"bert_mlm", "hidden_act"},
                                                        {"vit", "layer_norm_eps"},
                                                        {"swin", "mlp_ratio"},
                                                        {"swin", "layer_norm_eps"}}) {
    json config = fixture_config(family);
    config.erase(key);
    check_says(answer(config, fixture_items(family)), key + " is missing");
  }
  json config = fixture_config("gpt2");
  config["activation_function"] = "gelu";
  config["layer_norm_epsilon"] = 1e-7;
  const HfDescription d = read_hf_config(config, "config.json");
  CHECK(d.config.model.gelu == "erf");
  CHECK(d.config.model.norm_eps == 1e-7);
}

TEST_CASE("dropouts are read for training, and what has no place of its own is said") {
  const auto read = [](const std::string& family, const json& changes) {
    json config = fixture_config(family);
    config.update(changes);
    return read_hf_config(config, "config.json");
  };
  const auto check = [&](const std::string& family, const json& changes, double dropout,
                         double attention, double path, const std::string& note = "") {
    INFO(family << " " << changes.dump());
    const HfDescription d = read(family, changes);
    CHECK(d.config.model.dropout == dropout);
    CHECK(d.config.model.attention_dropout == attention);
    CHECK(d.config.model.drop_path == path);
    REQUIRE(d.notes.size() == (note.empty() ? 0 : 1));
    if (!note.empty()) check_says(d.notes[0], note);
  };
  check("gpt2", {{"resid_pdrop", 0.2}, {"embd_pdrop", 0.2}, {"attn_pdrop", 0.3}}, 0.2, 0.3, 0);
  check("gpt2", {{"resid_pdrop", 0.2}, {"embd_pdrop", 0.1}, {"attn_pdrop", 0.3}}, 0.2, 0.3, 0,
        "embd_pdrop is 0.1, resid_pdrop 0.2: in training model.dropout, 0.2");
  check("opt", {{"dropout", 0.2}, {"attention_dropout", 0.1}}, 0.2, 0.1, 0);
  check("opt", {{"dropout", 0.2}, {"layerdrop", 0.1}}, 0.2, 0, 0, "layerdrop 0.1 is not read");
  check("phi", {{"resid_pdrop", 0.1}, {"embd_pdrop", 0.1}, {"attention_dropout", 0.2}}, 0.1, 0.2,
        0);
  check("bloom", {{"hidden_dropout", 0.1}, {"attention_dropout", 0.2}}, 0.1, 0.2, 0);
  check("bert_mlm", {{"hidden_dropout_prob", 0.3}, {"classifier_dropout", 0.5}}, 0.3, 0.1, 0);
  check("bert_classifier", {{"hidden_dropout_prob", 0.3}, {"classifier_dropout", 0.5}}, 0.3, 0.1, 0,
        "classifier_dropout is 0.5");
  check("vit", {{"hidden_dropout_prob", 0.3}}, 0.3, 0, 0);
  check("swin", {{"drop_path_rate", 0.2}}, 0, 0, 0.2);
  check("swin", {{"drop_path_rate", 0}, {"attention_probs_dropout_prob", 0.1}}, 0, 0.1, 0,
        "attention_probs_dropout_prob is 0.1");
  check_says(with_option("gpt2", "resid_pdrop", 1.5), "resid_pdrop is 1.5: expected 0 to 0.999");
  check_says(with_option("vit", "hidden_dropout_prob", "no"), "hidden_dropout_prob");
  // What transformers takes when config.json does not say; and an export says it again.
  json none = fixture_config("gpt2");
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) none.erase(key);
  HfDescription d = read_hf_config(none, "config.json");
  CHECK(d.config.model.dropout == 0.1);
  CHECK(d.config.model.attention_dropout == 0.1);
  d.config.model.dropout = 0.25;
  const json written = write_hf_config(d.config, d.shape, json::object());
  CHECK(written.at("resid_pdrop") == 0.25);
  CHECK(written.at("embd_pdrop") == 0.25);
  CHECK(written.at("attn_pdrop") == 0.1);
}

TEST_CASE("detect --train of a model folder has its dropout in it") {
  const auto foldable = [](const json& changes, bool training) {
    const TemporaryFolder folder;
    json config = fixture_config("gpt2");
    config.update(changes);
    write_json(folder.file("config.json"), config);
    write_safetensors(folder.file("model.safetensors"), fixture_items("gpt2"));
    const LoadedModel loaded = load_model(folder.path());
    size_t count = 0;
    for (const DetectedNorm& norm : run_detect(*loaded.model, training).detection.norms)
      count += norm.verdict == Verdict::foldable;
    return count;
  };
  const json off = {{"resid_pdrop", 0}, {"embd_pdrop", 0}, {"attn_pdrop", 0}};
  CHECK(foldable(json::object(), true) == 0);  // 0.1
  CHECK(foldable(off, true) == 5);
  CHECK(foldable(json::object(), false) == 5);
}

TEST_CASE("widths of the MLP and kinds of token come from config.json, in bounds") {
  for (const json& value : std::vector<json>{0, -4, 24.5, 64.0, 1e30, "64", true, 16001, INT32_MAX,
                                             int64_t{1} << 40, json::array({64})})
    check_says(with_option("gpt2", "n_inner", value), "config.json: n_inner is " + value.dump());
  for (const json& value : std::vector<json>{0, -1, 1.5, 2.0, "2", true, 65537, INT32_MAX,
                                             int64_t{1} << 40, json::array({2})})
    check_says(with_option("bert_mlm", "type_vocab_size", value),
               "config.json: type_vocab_size is " + value.dump());
  // What the file holds must agree.
  check_says(with_option("gpt2", "n_inner", 24),
             "transformer.h.0.mlp.c_fc.bias F64 (64), but config.json's n_inner is 24");
  check_says(with_option("bert_mlm", "type_vocab_size", 3),
             "bert.embeddings.token_type_embeddings.weight F64 (2, 16), expected (3, 16)");
  // Controls: absent or null they are what transformers takes then.
  CHECK(with_option("gpt2", "n_inner", nullptr).empty());
  CHECK(with_option("gpt2", "n_inner", 64).empty());
  CHECK(with_option("bloom", "n_inner", 64).empty());
  json config = fixture_config("bert_mlm");
  config.erase("type_vocab_size");
  CHECK(answer(config, fixture_items("bert_mlm")).empty());
  check_says(answer(config, fixture_items("bert_types")), "token_type_embeddings.weight F64 (3,");
}

// Every width of an MLP has a ratio that gives it again.
TEST_CASE("no width of the MLP is lost between config.json and the config") {
  json config = fixture_config("gpt2");
  config["n_head"] = 1;
  for (const int64_t dim : {1, 3, 12, 49, 768, 769, 1280, 4097}) {
    config["n_embd"] = dim;
    for (int64_t width = 1; width <= 5 * dim; width += 1 + dim / 50) {
      config["n_inner"] = width;
      const HfDescription d = read_hf_config(config, "config.json");
      const json written = write_hf_config(d.config, d.shape, {});
      INFO(dim << " " << width);
      REQUIRE(written.at("n_inner") == (width == 4 * dim ? json() : json(width)));
      REQUIRE(mlp_width(d.config.model.mlp_ratio, dim) == width);
    }
  }
}

TEST_CASE("a model without a head is read with its pooler or without, and no other's head") {
  for (const std::string family : {"vit_model", "bert_model"}) {
    INFO(family);
    const HfImport with = import_model(fixture_folder(family));
    CHECK(with.kept.size() == 2);
    CHECK(with.kept.count("pooler.dense.weight") == 1);
    CHECK(with.description.config.model.task == "hidden_states");
    CHECK(with.description.shape.classes == 0);
    const Items items =
        without(without(fixture_items(family), "pooler.dense.weight"), "pooler.dense.bias");
    std::vector<std::string> notes;
    CHECK(answer(fixture_config(family), items, &notes).empty());
    CHECK(notes.empty());
  }
  for (const std::string family : {"vit", "swin"}) {
    check_says(with_option(family, "architectures", {family == "vit" ? "ViTModel" : "SwinModel"}),
               "not known: classifier.bias (5), classifier.weight");
    check_says(
        with_option(family + "_model", "architectures",
                    {family == "vit" ? "ViTForImageClassification" : "SwinForImageClassification"}),
        "missing: classifier.weight, classifier.bias");
  }
}

TEST_CASE("every tensor is accounted for by name") {
  const json config = fixture_config("gpt2");
  const Items items = fixture_items("gpt2");
  CHECK(answer(config, items).empty());
  const std::string bias = "transformer.h.1.attn.c_proj.bias";
  check_says(answer(config, without(items, bias)), "missing: " + bias);
  Items more = items;
  more.push_back({"transformer.h.2.ln_1.weight", zeros({16})});
  check_says(answer(config, more), "not known: transformer.h.2.ln_1.weight (16)");
  more = without(items, bias);
  more.push_back({bias, zeros({15})});
  check_says(answer(config, more), bias + " F64 (15), expected (16)");
  more.back().tensor = Tensor::zeros({16}, DType::i64);
  check_says(answer(config, more), bias + " I64");
  more.back().tensor = zeros({16});
  more.back().tensor.data<double>()[2] = NAN;
  check_says(answer(config, more), bias + " holds nan at element 2");
  // The transposed layout: what a Linear would store is refused.
  const std::string up = "transformer.h.0.mlp.c_fc.weight";
  more = without(items, up);
  more.push_back({up, zeros({64, 16})});
  check_says(answer(config, more), up + " F64 (64, 16), expected (16, 64)");
}

TEST_CASE("missing, unexpected and misshapen tensors are named in one line") {
  const json config = fixture_config("gpt2");
  const std::string bias = "transformer.h.1.attn.c_proj.bias";
  Items items = without(without(fixture_items("gpt2"), "transformer.ln_f.weight"), bias);
  items.push_back({"transformer.final_norm.weight", zeros({16})});
  items.push_back({bias, zeros({15})});
  check_says(answer(config, items), "missing: transformer.ln_f.weight; of another shape: " + bias +
                                        " F64 (15), expected (16); not known: "
                                        "transformer.final_norm.weight (16)");
  items = without(without(fixture_items("gpt2"), "transformer.wte.weight"), bias);
  items.push_back({"transformer.wte.weight", zeros({12, 16})});
  check_says(answer(config, items),
             "missing: " + bias +
                 "; of another shape: transformer.wte.weight F64 (12, 16), but "
                 "config.json's vocab_size is 13");
  items = fixture_items("gpt2");
  for (SafetensorsItem& item : items) item.name = "module." + item.name;
  check_says(answer(config, items), "missing: transformer.wte.weight, ");
  check_says(answer(config, items), "not known: module.transformer.h.0.attn.c_attn.bias");
}

TEST_CASE("names from a file are one printable line") {
  Items items = fixture_items("gpt2");
  items.push_back({"evil\n\x1b[31mname", zeros({1})});
  check_says(answer(fixture_config("gpt2"), items), "not known: evil\\x0a\\x1b[31mname (1)");
  items.back().name = std::string(100'000, 'x');
  CHECK(answer(fixture_config("gpt2"), items).size() < 1000);
  const std::string key = with_option("gpt2", "\x1b[31mkey", 1);
  check_says(key, "another function: \\x1b[31mkey");
  CHECK(with_option("gpt2", "activation_function", std::string(100'000, 'x')).size() < 1000);
  CHECK(with_option("gpt2", "n_inner", std::string(100'000, 'x')).size() < 1000);
}

TEST_CASE("buffers are passed over with a note, old names and bare bodies are read") {
  std::vector<std::string> notes;
  Items items = fixture_items("gpt2");
  for (SafetensorsItem& item : items)
    item.name = item.name.substr(std::string("transformer.").size());
  items.push_back({"h.0.attn.bias", Tensor::zeros({1, 1, 7, 7}, DType::i32), StoredType::u8});
  CHECK(answer(fixture_config("gpt2"), items, &notes).empty());
  REQUIRE(notes.size() == 2);
  check_says(notes[0], "lm_head.weight");
  check_says(notes[1], "h.0.attn.bias: not read: the causal mask");

  items = fixture_items("bert_mlm");
  for (SafetensorsItem& item : items) {
    const size_t at = item.name.find("LayerNorm.");
    if (at != std::string::npos)
      item.name = item.name.substr(0, at) +
                  (item.name.back() == 't' ? "LayerNorm.gamma" : "LayerNorm.beta");
  }
  items.push_back({"bert.embeddings.position_ids", Tensor::zeros({1, 7}, DType::i64)});
  items.push_back({"bert.pooler.dense.weight", zeros({16, 16})});
  CHECK(answer(fixture_config("bert_mlm"), items, &notes).empty());
  CHECK(notes.size() == 4);  // position_ids, the pooler, and the second names of two tensors
}

TEST_CASE("what transformers has saved beside the weights is no unexpected tensor") {
  struct Case {
    const char *family, *name;
    Shape shape;
    bool kept;
  };
  const std::vector<Case> cases = {
      {"gpt2", "transformer.h.1.attn.bias", {1, 1, 7, 7}, false},
      {"gpt2", "transformer.h.1.attn.masked_bias", {}, false},
      {"phi", "model.layers.0.self_attn.rotary_emb.inv_freq", {1}, false},
      {"bert_mlm", "bert.embeddings.position_ids", {1, 7}, false},
      {"bert_mlm", "bert.embeddings.token_type_ids", {1, 7}, false},
      {"bert_mlm", "bert.pooler.dense.bias", {16}, true},
      {"bert_mlm", "cls.seq_relationship.weight", {2, 16}, true},
      {"vit", "vit.pooler.dense.weight", {12, 12}, true},
      {"vit", "vit.embeddings.mask_token", {1, 1, 12}, true},
      {"swin", "swin.embeddings.mask_token", {1, 1, 6}, true}};
  for (const Case& c : cases) {
    INFO(c.name);
    const TemporaryFolder folder;
    write_json(folder.file("config.json"), fixture_config(c.family));
    Items items = fixture_items(c.family);
    items.push_back({c.name, zeros(c.shape)});
    write_safetensors(folder.file("model.safetensors"), items);
    const HfImport m = import_model(folder.path());
    CHECK(m.kept.count(c.name) == static_cast<size_t>(c.kept));
    items.back().name += "_of_another";
    check_says(answer(fixture_config(c.family), items), "not known: " + items.back().name);
  }
  // A Swin's own: kept as the integers that they are.
  const HfImport swin = import_model(fixture_folder("swin"));
  CHECK(swin.kept.size() == 5);
  for (const auto& [name, value] : swin.kept) CHECK(value.dtype() == DType::i64);
}

// P61: of two names of one tensor a file has either or both, and then the same numbers.
TEST_CASE("a tensor with two names is read by either, and an error when they differ") {
  struct Case {
    const char *family, *owner, *second;
  };
  const std::vector<Case> cases = {
      {"gpt2", "transformer.wte.weight", "lm_head.weight"},
      {"opt", "model.decoder.embed_tokens.weight", "lm_head.weight"},
      {"bloom", "transformer.word_embeddings.weight", "lm_head.weight"},
      {"bert_mlm", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"},
      {"bert_mlm", "cls.predictions.bias", "cls.predictions.decoder.bias"}};
  for (const Case& c : cases) {
    INFO(c.family << " " << c.second);
    const json config = fixture_config(c.family);
    const Items items = without(fixture_items(c.family), c.second);
    Tensor value;
    for (const SafetensorsItem& item : items)
      if (item.name == c.owner) value = item.tensor;
    std::vector<std::string> notes;
    CHECK(answer(config, items, &notes).empty());
    check_has(notes, std::string(c.second) + ": not in the file, tied to " + c.owner);
    Items other = items;
    other.push_back({c.second, value});
    CHECK(answer(config, other).empty());
    const Items second_only = without(other, c.owner);
    CHECK(answer(config, second_only, &notes).empty());
    check_has(notes, std::string(c.owner) + ": not in the file, tied to " + c.second);
    CHECK(state_of(config, second_only) == state_of(config, items));
    other.back().tensor = value.clone();
    other.back().tensor.data<double>()[5] += 1;
    check_says(answer(config, other), std::string(c.second) + " is not " + c.owner);
    check_says(answer(config, without(items, c.owner)), std::string("missing: ") + c.owner);
  }
}

TEST_CASE("a missing head is an error when it is not tied") {
  json config = fixture_config("gpt2");
  config["tie_word_embeddings"] = false;
  Items items = fixture_items("gpt2");
  check_says(answer(config, items), "missing: lm_head.weight");
  items.push_back({"lm_head.weight", zeros({13, 16})});
  CHECK(answer(config, items).empty());
}

// A config.json of another model must not cost the memory that such a model would take.
TEST_CASE("layers and sizes that the file has not are found before a model is built") {
  const auto size = [](const char* family, const char* key, const json& value) {
    const std::string message = with_option(family, key, value);
    INFO(family << " " << key);
    check_says(message, std::string("config.json's ") + key + " is");
  };
  constexpr int kAbsurd = 2'000'000'000;
  for (const char* key : {"vocab_size", "n_embd", "n_positions"}) size("gpt2", key, kAbsurd);
  for (const char* key : {"vocab_size", "max_position_embeddings"}) size("opt", key, kAbsurd);
  size("opt", "ffn_dim", 16 * 900);
  size("phi", "vocab_size", kAbsurd);
  size("phi", "intermediate_size", 16 * 900);
  size("bloom", "vocab_size", kAbsurd);
  for (const char* family : {"bert_mlm", "bert_classifier", "bert_model"}) {
    size(family, "vocab_size", kAbsurd);
    size(family, "max_position_embeddings", kAbsurd);
    size(family, "intermediate_size", 16 * 900);
  }
  for (const char* family : {"vit", "swin"}) size(family, "num_channels", 1 << 20);
  size("vit", "patch_size", 2);
  size("swin", "patch_size", 1 << 20);
  size("vit", "image_size", 1 << 28);
  size("swin", "embed_dim", 6 << 20);
  size("swin", "window_size", kAbsurd);
  for (const char* family : {"vit", "swin", "bert_classifier"})
    size(family, "id2label", {{"0", "one"}});
  for (const char* family : {"gpt2", "bloom"})
    check_says(with_option(family, "n_layer", kAbsurd),
               "config.json: n_layer gives 2000000000 layers, but the file has only");
  for (const char* family : {"opt", "phi", "bert_mlm", "vit"})
    check_says(with_option(family, "num_hidden_layers", kAbsurd),
               "config.json: num_hidden_layers gives 2000000000 layers");
  check_says(with_option("swin", "depths", {kAbsurd, 1, 1}), "config.json: depths gives 20000000");
  check_says(with_option("gpt2", "n_layer", 20), "missing: transformer.h.2.ln_1.weight");
}

TEST_CASE("a number of config.json that no model can have is named by its key") {
  const auto refused = [](const char* family, const char* key, const json& value,
                          const char* part) {
    const std::string message = with_option(family, key, value);
    INFO(family << " " << key);
    check_says(message, std::string("config.json: ") + key);
    check_says(message, part);
  };
  for (const char* key : {"vocab_size", "n_layer", "n_head", "n_embd", "n_positions"})
    refused("gpt2", key, 0, "is 0, expected a whole number from 1");
  refused("gpt2", "n_head", 5, "n_head is 5, which does not divide n_embd 16");
  refused("bloom", "n_head", 5, "does not divide hidden_size");
  for (const char* family : {"opt", "phi", "bert_mlm", "vit"})
    refused(family, "num_attention_heads", 7, "is 7, which does not divide hidden_size");
  for (const char* family : {"gpt2", "bloom"}) refused(family, "layer_norm_epsilon", -1, "is -1");
  for (const char* family : {"phi", "bert_mlm", "vit"})
    refused(family, "layer_norm_eps", -1, "at least 0");
  refused("phi", "partial_rotary_factor", 1.5, "is 1.5");
  refused("vit", "image_size", 13, "no multiple of patch_size");
  refused("vit", "id2label", json::object(), "no list of labels");
  check_says(with_option("swin", "depths", {1, 1, 1, 1, 1}),
             "config.json: num_heads is for 3 stages, depths for 5");
  refused("swin", "depths", {1, 0, 1}, "expected whole numbers from 1");
  refused("swin", "num_heads", {5, 5, 5}, "is 5 in stage 0, which does not divide its width");
  refused("swin", "mlp_ratio", 0, "is 0");
}

// Of distilgpt2, gpt2-medium, old BERTs, rerankers and what people leave in a config.json.
TEST_CASE("what real config.json files hold beside the function is read") {
  const json harmless = {{"_num_labels", 1},
                         {"n_special", 0},
                         {"predict_special_tokens", true},
                         {"pruned_heads", json::object()},
                         {"sbert_ce_default_activation_function", "torch.nn.Identity"},
                         {"sentence_transformers", {{"version", "4.0"}}},
                         {"auto_map", {{"AutoModel", "modeling.Model"}}},
                         {"is_encoder_decoder", false},
                         {"is_decoder", false},
                         {"add_cross_attention", false},
                         {"chunk_size_feed_forward", 8},
                         {"tie_encoder_decoder", false},
                         {"length_penalty", 1.0},
                         {"no_repeat_ngram_size", 3},
                         {"early_stopping", true},
                         {"num_return_sequences", 1},
                         {"suppress_tokens", {1, 2}}};
  const json harmful = {{"is_encoder_decoder", true},
                        {"is_decoder", true},
                        {"tie_encoder_decoder", true},
                        {"pruned_heads", {{"0", {1}}}},
                        {"n_special", 3}};
  for (const char* family : {"gpt2", "opt", "phi", "bloom", "bert_mlm", "vit", "swin"}) {
    INFO(family);
    json config = fixture_config(family);
    config.update(harmless);
    CHECK(answer(config, fixture_items(family)).empty());
    for (const auto& [key, value] : harmful.items())
      check_says(with_option(family, key.c_str(), value), "config.json: " + key + " is ");
  }
}

TEST_CASE("a classifier of one label is read") {
  json config = fixture_config("bert_classifier");
  config["id2label"] = {{"0", "LABEL_0"}};
  Items items =
      without(without(fixture_items("bert_classifier"), "classifier.weight"), "classifier.bias");
  items.push_back({"classifier.weight", zeros({1, 16})});
  items.push_back({"classifier.bias", zeros({1})});
  CHECK(answer(config, items).empty());
}

// What was passed over is not in what is written, which every command reads without a word.
TEST_CASE("an option that was let through does not return in the export") {
  const TemporaryFolder folder;
  json config = fixture_config("gpt2");
  config["of_my_own"] = 4;
  write_json(folder.file("config.json"), config);
  write_safetensors(folder.file("model.safetensors"), fixture_items("gpt2"));
  check_says(message_of<Error>([&] { load_model(folder.path()); }),
             "of_my_own (`cbwc import` and `cbwc fold` pass over one with --allow NAME)");
  HfImport m = import_model(folder.path(), {"of_my_own", "n_layer", "not_there"});
  check_has(m.notes, folder.file("config.json") +
                         ": of_my_own is passed over (--allow), and not written again");
  const LoadedModel loaded = loaded_import(std::move(m), folder.path());
  const TemporaryFolder parent;
  const std::string out = parent.file("exported");
  write_hf_folder(hf_folder_of(loaded), out);
  const json written = read_json(out + "/config.json");
  CHECK_FALSE(written.contains("of_my_own"));
  CHECK(written["n_layer"] == config["n_layer"]);
  CHECK(message_of<Error>([&] { load_model(out); }).empty());
}

TEST_CASE("an imported model is a run folder") {
  const TemporaryFolder folder;
  const std::string out = folder.file("imported");
  HfImport m = import_model(fixture_folder("bloom"));
  save_import(m, "somewhere", out);
  const LoadedModel loaded = load_model(out);
  CHECK(loaded.config.model.family == "bloom");
  CHECK(loaded.attributes["imported"]["config"] == fixture_config("bloom"));
  for (const auto& [name, value] : m.model->state())
    CHECK(value.to_vector<double>() == loaded.model->parameter(name)->value().to_vector<double>());
  check_says(message_of<Error>([&] { save_import(m, "somewhere", out); }), "exists");
}

TEST_CASE("a classifier starts from a model without a head") {
  for (const std::string family : {"vit_model", "swin_model", "bert_one_type"}) {
    INFO(family);
    const TemporaryFolder folder;
    const HfImport m = import_model(fixture_folder(family));
    save_import(m, "somewhere", folder.file("imported"));
    Config config = m.description.config;
    const bool bert = config.model.family == "bert";
    config.model.task = bert ? "mlm" : "classification";
    const auto model = build_model(config, {.vocab = 13, .classes = 3}, 2);
    const std::vector<std::string> notes =
        load_initial_weights(*model, config, folder.file("imported"));
    REQUIRE(notes.size() == 2);
    check_says(notes[1],
               bert ? "; not used: classifier.bias" : "the head is new (head.bias, head.weight)");
    for (const auto& [name, value] : m.model->state())
      if (model->state().count(name) > 0)
        CHECK(model->parameter(name)->value().to_vector<double>() == value.to_vector<double>());
    config.model.token_types = 4;
    if (bert)
      check_says(message_of<Error>([&] {
                   load_initial_weights(*build_model(config, {.vocab = 13}, 2), config,
                                        folder.file("imported"));
                 }),
                 "model.token_types is 1 in ");
  }
}

TEST_CASE("export refuses what transformers has no class for") {
  const TemporaryFolder folder;
  const auto message = [&](const std::function<void(Config&)>& change) {
    const HfImport m = import_model(fixture_folder("gpt2"));
    Config config = m.description.config;
    change(config);
    return message_of<Error>(
        [&] { export_model(*m.model, config, m.description.shape, {}, folder.file("out")); });
  };
  check_says(message([](Config& c) { c.model.norm = "cbwc_rmsnorm"; }), "model.norm");
  check_says(message([](Config& c) { c.model.placement = "post"; }), "model.placement");
  check_says(message([](Config& c) { c.model.family = "encoder_decoder"; }), "encoder_decoder");
  CHECK(message([](Config&) {}).empty());
  check_says(message([](Config&) {}), "exists");
}
