#include "experiments/hf_extents.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "layers/mlp.h"

namespace cbwc {
namespace {

// One family's, gathered.
class Extents {
 public:
  explicit Extents(const std::string& body) : body_(body) {}
  // `extent`: where it is not the value itself.
  Extents& add(const char* key, int64_t value, const std::string& tensor, size_t axis = 0,
               int64_t extent = -1) {
    all_.push_back({key, std::to_string(value), body_ + tensor, axis, extent < 0 ? value : extent});
    return *this;
  }
  Extents& add_classes(const Config::Model& m) {
    if (m.classes > 0)
      all_.push_back(
          {"id2label", std::to_string(m.classes) + " labels", "classifier.weight", 0, m.classes});
    return *this;
  }
  const std::vector<HfExtent>& all() const { return all_; }

 private:
  const std::string body_;
  std::vector<HfExtent> all_;
};

int64_t width_of(const Config::Model& m) { return mlp_width(m.mlp_ratio, m.dim); }

Extents gpt_extents(const Config::Model& m) {
  return Extents("transformer.")
      .add("vocab_size", m.vocab, "wte.weight")
      .add("n_embd", m.dim, "wte.weight", 1)
      .add("n_positions", m.context, "wpe.weight")
      .add("n_inner", width_of(m), "h.0.mlp.c_fc.bias");
}

Extents opt_extents(const Config::Model& m) {
  constexpr int64_t kBefore = 2;  // rows in front of the first position's
  return Extents("model.decoder.")
      .add("vocab_size", m.vocab, "embed_tokens.weight")
      .add("hidden_size", m.dim, "embed_tokens.weight", 1)
      .add("max_position_embeddings", m.context, "embed_positions.weight", 0, m.context + kBefore)
      .add("ffn_dim", width_of(m), "layers.0.fc1.bias");
}

Extents phi_extents(const Config::Model& m) {
  return Extents("model.")
      .add("vocab_size", m.vocab, "embed_tokens.weight")
      .add("hidden_size", m.dim, "embed_tokens.weight", 1)
      .add("intermediate_size", width_of(m), "layers.0.mlp.fc1.bias");
}

Extents bloom_extents(const Config::Model& m) {
  return Extents("transformer.")
      .add("vocab_size", m.vocab, "word_embeddings.weight")
      .add("hidden_size", m.dim, "word_embeddings.weight", 1);
}

Extents bert_extents(const Config::Model& m) {
  Extents out("bert.");
  out.add("vocab_size", m.vocab, "embeddings.word_embeddings.weight")
      .add("hidden_size", m.dim, "embeddings.word_embeddings.weight", 1)
      .add("max_position_embeddings", m.context, "embeddings.position_embeddings.weight")
      .add("intermediate_size", width_of(m), "encoder.layer.0.intermediate.dense.bias");
  return out.add_classes(m);
}

Extents vit_extents(const Config::Model& m, int64_t channels) {
  const int64_t side = m.image / m.patch;
  const char* patches = "embeddings.patch_embeddings.projection.weight";
  Extents out("vit.");
  out.add("hidden_size", m.dim, patches)
      .add("num_channels", channels, patches, 1)
      .add("patch_size", m.patch, patches, 2)
      .add("image_size", m.image, "embeddings.position_embeddings", 1, side * side + 1)
      .add("intermediate_size", width_of(m), "encoder.layer.0.intermediate.dense.bias");
  return out.add_classes(m);
}

Extents swin_extents(const Config::Model& m, int64_t channels) {
  constexpr int64_t kWidest = 1 << 20;  // its square can still be counted
  const int64_t side = 2 * std::min(m.window, kWidest) - 1;
  const std::string patches = "embeddings.patch_embeddings.projection.weight",
                    block = "encoder.layers.0.blocks.0.";
  Extents out("swin.");
  out.add("embed_dim", m.dim, patches)
      .add("num_channels", channels, patches, 1)
      .add("patch_size", m.patch, patches, 2)
      .add("window_size", m.window, block + "attention.self.relative_position_bias_table", 0,
           side * side)
      .add("mlp_ratio times embed_dim", width_of(m), block + "intermediate.dense.bias");
  return out.add_classes(m);
}

const char* layers_key(const std::string& family) {
  if (family == "swin") return "depths";
  return family == "gpt" || family == "bloom" ? "n_layer" : "num_hidden_layers";
}

}  // namespace

std::vector<HfExtent> hf_extents(const Config& config, const DataShape& shape) {
  const Config::Model& m = config.model;
  if (m.family == "gpt") return gpt_extents(m).all();
  if (m.family == "opt") return opt_extents(m).all();
  if (m.family == "phi") return phi_extents(m).all();
  if (m.family == "bloom") return bloom_extents(m).all();
  if (m.family == "bert") return bert_extents(m).all();
  return m.family == "swin" ? swin_extents(m, shape.channels).all()
                            : vit_extents(m, shape.channels).all();
}

void check_layer_count(const Config& config, int64_t tensors) {
  const Config::Model& m = config.model;
  const int64_t layers =
      m.family == "swin" ? std::accumulate(m.depths.begin(), m.depths.end(), int64_t{0}) : m.layers;
  CBWC_CHECK(layers <= tensors, layers_key(m.family), " gives ", layers,
             " layers, but the file has only ", tensors, " tensors");
}

}  // namespace cbwc
