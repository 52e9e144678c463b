// import refuses what it would get wrong, each in one line that names it; what it writes is a run
// folder that the other commands read.
#include <functional>

#include "experiments/hf_folder.h"
#include "experiments/hf_import.h"
#include "experiments/json_output.h"
#include "experiments/model_graph.h"
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
                                   {"gpt2", "n_inner", 24},
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
                                   {"bert_mlm", "type_vocab_size", 3},
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
  check_says(with_option("vit", "architectures", {"ViTModel"}),
             "architecture ViTModel cannot be read");
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
  CHECK(notes.size() == 3);
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
      {"bert_mlm", "cls.predictions.decoder.bias", {13}, false},
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

// P61: a head that the file leaves out is the tied table, and an error when it is not tied.
TEST_CASE("a missing head is restored when it is tied and an error when it is not") {
  json config = fixture_config("gpt2");
  const Items items = fixture_items("gpt2");
  Tensor table;
  for (const SafetensorsItem& item : items)
    if (item.name == "transformer.wte.weight") table = item.tensor;
  Items with_head = items;
  with_head.push_back({"lm_head.weight", table});
  std::vector<std::string> notes;
  CHECK(answer(config, items, &notes).empty());
  check_says(notes.at(0), "lm_head.weight: not in the file, tied to transformer.wte.weight");
  CHECK(answer(config, with_head).empty());
  config["tie_word_embeddings"] = false;
  check_says(answer(config, items), "missing: lm_head.weight");
  CHECK(answer(config, with_head).empty());
  with_head.back().tensor = table.clone();
  with_head.back().tensor.data<double>()[5] += 1;
  CHECK(answer(config, with_head).empty());
  config["tie_word_embeddings"] = true;
  check_says(answer(config, with_head), "lm_head.weight is not transformer.wte.weight");
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
