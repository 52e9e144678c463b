// import refuses weights that it would get wrong, each in one line that names them; what it writes
// is a run folder that the other commands read.
#include <sys/stat.h>

#include <functional>

#include "experiments/initial_weights.h"
#include "experiments/model_graph.h"
#include "tests/experiments/hf_answers.h"

using namespace cbwc;
using namespace cbwc::testing;
using nlohmann::json;

namespace {

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

TEST_CASE("a model without a head is read with its pooler or without, and no other's head") {
  for (const std::string family : {"vit_model", "bert_model"}) {
    INFO(family);
    const HfImport with = import_model(hf_fixture(family));
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
  const HfImport swin = import_model(hf_fixture("swin"));
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

TEST_CASE("a classifier of one label is read") {
  json config = fixture_config("bert_classifier");
  config["id2label"] = {{"0", "LABEL_0"}};
  Items items =
      without(without(fixture_items("bert_classifier"), "classifier.weight"), "classifier.bias");
  items.push_back({"classifier.weight", zeros({1, 16})});
  items.push_back({"classifier.bias", zeros({1})});
  CHECK(answer(config, items).empty());
}

// What no file has a shape for is held to the bounds of a config's own keys.
TEST_CASE("a size that is in no tensor and that no run could have is refused") {
  check_says(with_option("bloom", "seq_length", 2'000'000'000),
             "config.json: model.context: expected a value of at least 1 and at most 10000000");
  check_says(with_option("swin", "image_size", 1 << 20), "config.json: model.image: expected");
  CHECK(with_option("bloom", "seq_length", 10'000'000).empty());
}

// Rounded to float32 it would be infinite, and the others would lose digits.
TEST_CASE("one weight in float64 makes a model in float64") {
  Items items = fixture_items("gpt2");
  for (SafetensorsItem& item : items)
    item.type = item.name == "transformer.ln_f.bias" ? StoredType::f64 : StoredType::f32;
  for (SafetensorsItem& item : items)
    if (item.type == StoredType::f64) item.tensor.data<double>()[3] = 1e300;
  const std::vector<double> bias = state_of(fixture_config("gpt2"), items).at("norm.beta");
  CHECK(bias.at(3) == 1e300);
}

TEST_CASE("a pipe in the place of the weights is refused, not waited for") {
  const TemporaryFolder folder;
  write_json(folder.file("config.json"), fixture_config("gpt2"));
  REQUIRE(::mkfifo(folder.file("model.safetensors").c_str(), 0600) == 0);
  check_says(message_of<Error>([&] { import_model(folder.path()); }),
             folder.file("model.safetensors") + ": not a file");
}

TEST_CASE("an imported model is a run folder") {
  const TemporaryFolder folder;
  const std::string out = folder.file("imported");
  HfImport m = import_model(hf_fixture("bloom"));
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
    const HfImport m = import_model(hf_fixture(family));
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
    const HfImport m = import_model(hf_fixture("gpt2"));
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
