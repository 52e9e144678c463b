// The models that tests/fixtures/make_hf.py wrote with transformers.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "experiments/hf_config.h"
#include "layers/model.h"
#include "tests/data/temporary_folder.h"

namespace cbwc::testing {

inline const std::vector<std::string> kHfFamilies = {
    "gpt2", "opt", "phi", "bloom", "bert_mlm", "bert_classifier", "bert_model", "vit", "swin"};

inline std::string hf_fixture(const std::string& family) {
  return std::string(CBWC_SOURCE_DIR) + "/tests/fixtures/hf_" + family;
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
    types.push_back(static_cast<int32_t>(i % kTokens * 2 / kTokens));
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

}  // namespace cbwc::testing
