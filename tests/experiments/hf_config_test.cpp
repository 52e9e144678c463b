// config.json: what would be another function is refused by name, sizes and dropouts are read, and
// what is written says the same again.
#include "experiments/hf_config.h"
#include "experiments/detect.h"
#include "experiments/model_graph.h"
#include "layers/mlp.h"
#include "tests/experiments/hf_answers.h"

using namespace cbwc;
using namespace cbwc::testing;
using nlohmann::json;

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
