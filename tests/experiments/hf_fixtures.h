// The models that tests/fixtures/make_hf.py wrote with transformers.
#pragma once
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "data/process.h"
#include "data/safetensors.h"
#include "experiments/hf_config.h"
#include "experiments/hf_folder.h"
#include "experiments/json_output.h"
#include "layers/model.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

namespace cbwc::testing {

inline const std::vector<std::string> kHfFamilies = {
    "gpt2", "opt",  "phi",        "bloom",      "bert_mlm",      "bert_classifier", "bert_model",
    "vit",  "swin", "gpt2_inner", "bert_types", "bert_one_type", "vit_model",       "swin_model"};

inline std::string hf_fixture(const std::string& family) {
  return std::string(CBWC_SOURCE_DIR) + "/tests/fixtures/hf_" + family;
}

// An error's one line.
inline void check_says(const std::string& message, const std::string& part) {
  INFO(message);
  CHECK(message.find(part) != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
}

// The formulas of make_hf.py.
inline ModelInput hf_input(const HfDescription& d) {
  constexpr int64_t kBatch = 3, kTokens = 6, kVocab = 13;
  ModelInput input;
  if (reads_images(d.config)) {
    const int64_t size = d.config.model.image;
    std::vector<double> v;
    for (int64_t i = 0; i < kBatch * 3 * size * size; ++i) {
      const auto x = static_cast<double>(i);
      v.push_back(std::sin(0.37 * x) * std::cos(0.011 * x) + 0.2);
    }
    input.images = Tensor::from(v, {kBatch, 3, size, size});
    return input;
  }
  std::vector<int32_t> ids, types;
  for (int64_t i = 0; i < kBatch * kTokens; ++i) {
    ids.push_back(static_cast<int32_t>((i * i + 3 * i) % kVocab));
    types.push_back(static_cast<int32_t>(i % kTokens * d.config.model.token_types / kTokens));
  }
  input.ids = Tensor::from(ids, {kBatch, kTokens});
  if (d.config.model.family == "bert") input.token_types = Tensor::from(types, {kBatch, kTokens});
  return input;
}

// The fixture in another precision, as save_pretrained of such a model writes it.
inline void write_hf_as(const std::string& family, StoredType type, const TemporaryFolder& folder) {
  const Safetensors file(hf_fixture(family));
  std::vector<SafetensorsItem> items;
  for (const Safetensors::Entry& e : file.entries()) {
    const bool number = is_float(dtype_of_stored(e.type));
    items.push_back({e.name, file.read(e), number ? type : e.type});
  }
  write_safetensors(folder.file("model.safetensors"), items);
  write_bytes(folder.file("config.json"), read_bytes(hf_fixture(family) + "/config.json"));
}

// tests/fixtures/hf_FAMILY with a larger table and context and drawn weights, in float64, and the
// tokenizer of that name in tokenizers.json.
inline void write_hf_text_folder(const std::string& family, const std::string& tokenizer,
                                 const std::string& out, int64_t vocab = 1600) {
  const std::string fixtures = std::string(CBWC_SOURCE_DIR) + "/tests/fixtures/";
  nlohmann::json config = read_json(fixtures + "hf_" + family + "/config.json");
  config["vocab_size"] = vocab;
  for (const char* key : {"n_positions", "max_position_embeddings", "seq_length"})
    if (config.contains(key)) config[key] = 24;
  if (family == "bloom") config["seq_length"] = 24;
  HfDescription d = read_hf_config(config, "config.json");
  d.config.model.dtype = "float64";
  d.config.model.init_std = 0.3;
  const std::unique_ptr<Model> model = build_model(d.config, d.shape, 5);
  export_model(*model, d.config, d.shape, config, out);
  const nlohmann::json files =
      read_json(fixtures + "tokenizers.json").at("folders").at(tokenizer).at("files");
  for (const auto& [name, text] : files.items())
    write_bytes(out + "/" + name, text.get<std::string>());
}

// env CBWC_PYTHON or python3; "" with the reason printed when it has no transformers.
inline std::string python_with_transformers() {
  const char* chosen = std::getenv("CBWC_PYTHON");
  const std::string python = chosen == nullptr ? "python3" : chosen;
  const ProcessResult found =
      run_process({python, "-c", "import torch, transformers, safetensors"}, "python3");
  if (found.exit_code == 0) return python;
  std::cout << "skipped: " << python << " cannot import torch, transformers and safetensors"
            << " (set CBWC_PYTHON to one that can)\n";
  return "";
}

// tests/fixtures/hf_FAMILY without its pooler, as add_pooling_layer=False leaves it out.
inline void write_without_pooler(const std::string& family, const std::string& folder) {
  const Safetensors file(hf_fixture(family));
  std::vector<SafetensorsItem> items;
  for (const Safetensors::Entry& e : file.entries())
    if (e.name.find("pooler.") == std::string::npos) items.push_back({e.name, file.read(e)});
  write_safetensors(folder + "/model.safetensors", items, file.metadata());
  write_bytes(folder + "/config.json", read_bytes(hf_fixture(family) + "/config.json"));
}

}  // namespace cbwc::testing
