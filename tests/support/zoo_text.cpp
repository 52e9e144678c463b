// The framework's own text models in the zoo: BERT, OPT, Phi, BLOOM, the encoder-decoder, with
// padded input.
#include "tests/support/text_models.h"
#include "tests/support/zoo.h"

namespace cbwc::testing {
namespace {

constexpr int64_t kLayers = 2;  // of set_sizes

class ZooText : public ZooModel {
 public:
  ZooText(std::unique_ptr<Model> model, uint64_t seed) : model_(std::move(model)) {
    randomize(*model_, seed);
  }
  Module& module() override { return *model_; }
  std::vector<Variable> run(const Context& context, uint64_t input_seed) override {
    return {model_->logits(model_->example(2, input_seed), context)};
  }

 private:
  std::unique_ptr<Model> model_;
};

template <class M, class Config>
ZooNetwork text(std::string name, const Config& config, std::vector<ZooNorm> norms,
                std::vector<std::string> ties = {}) {
  const auto make = [config](DType dtype, uint64_t seed) -> std::unique_ptr<ZooModel> {
    Config c = config;
    c.dtype = dtype;
    return std::make_unique<ZooText>(std::make_unique<M>(c, seed), seed);
  };
  ZooNetwork out{std::move(name), make, std::move(norms)};
  out.ties = std::move(ties);
  return out;
}

std::vector<ZooNorm> phi_norms() {
  std::vector<std::string> leaves = {"wte"};
  std::vector<ZooNorm> norms;
  for (int64_t i = 0; i < kLayers; ++i) {
    norms.push_back(folds(block_name(i) + ".norm1", leaves));
    leaves.push_back(block_name(i) + ".attn.out");
    leaves.push_back(block_name(i) + ".mlp.down");
  }
  norms.push_back(folds("norm", leaves));
  return norms;
}

std::vector<ZooNorm> bloom_norms() {
  std::vector<ZooNorm> norms = {folds("embedding_norm", {"wte"})};
  for (const ZooNorm& n : pre_norms(kLayers, {})) norms.push_back(with_auxiliary(n.name));
  return norms;
}

std::vector<ZooNorm> bert_norms(bool mlm) {
  std::vector<ZooNorm> norms = {folds("embedding_norm", {"tokens", "positions", "types"})};
  std::string before = "embedding_norm";
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string b = block_name(i);
    norms.push_back(refused(b + ".norm1", before, {b + ".attn.out"}));
    norms.push_back(refused(b + ".norm2", b + ".norm1", {b + ".mlp.down"}));
    before = b + ".norm2";
  }
  if (mlm) norms.push_back(refused("mlm.norm", "mlm", {"mlm.dense"}));
  return norms;
}

std::vector<ZooNorm> encoder_decoder_norms() {
  std::vector<ZooNorm> norms;
  std::vector<std::string> leaves = {"tokens", "encoder.positions"};
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string b = "encoder." + std::to_string(i);
    norms.push_back(folds(b + ".norm1", leaves));
    leaves.push_back(b + ".attn.out");
    norms.push_back(folds(b + ".norm2", leaves));
    leaves.push_back(b + ".mlp.down");
  }
  norms.push_back(folds("encoder.norm", leaves));
  leaves = {"tokens", "decoder.positions"};
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string b = "decoder." + std::to_string(i);
    norms.push_back(folds(b + ".norm1", leaves));
    leaves.push_back(b + ".attn.out");
    norms.push_back(folds(b + ".norm2", leaves));
    leaves.push_back(b + ".cross.out");
    norms.push_back(folds(b + ".norm3", leaves));
    leaves.push_back(b + ".mlp.down");
  }
  norms.push_back(folds("decoder.norm", leaves));
  return norms;
}

// Each stream's first norm is refused for who reads the stream raw, the others for the affine norm
// before them.
std::vector<ZooNorm> post_norm_encoder_decoder_norms() {
  std::vector<ZooNorm> norms;
  std::string before = "encoder.0.attn.qkv";
  std::vector<std::string> start = {"tokens", "encoder.positions"};
  const auto add = [&](const std::string& norm, const std::string& writer) {
    start.push_back(writer);
    norms.push_back(refused(norm, before, start));
    before = norm;
    start.clear();
  };
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string b = "encoder." + std::to_string(i);
    add(b + ".norm1", b + ".attn.out");
    add(b + ".norm2", b + ".mlp.down");
  }
  before = "decoder.0.attn.qkv";
  start = {"tokens", "decoder.positions"};
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string b = "decoder." + std::to_string(i);
    add(b + ".norm1", b + ".attn.out");
    add(b + ".norm2", b + ".cross.out");
    add(b + ".norm3", b + ".mlp.down");
  }
  // The shared table has readers in both streams; which of them is named does not matter.
  norms[0].blocking = norms[static_cast<size_t>(2 * kLayers)].blocking = "";
  return norms;
}

}  // namespace

std::vector<ZooNetwork> zoo_text() {
  std::vector<ZooNetwork> out;
  out.push_back(
      text<Decoder>("opt model", small_opt({}), pre_norms(kLayers, {"wte", "wpe"}), {"head"}));
  out.push_back(text<Decoder>("phi model", small_phi({}), phi_norms()));
  out.push_back(text<Decoder>("bloom model", small_bloom({}), bloom_norms(), {"head"}));
  out.back().auxiliary = {"embedding_norm"};
  out.push_back(
      text<Bert>("bert model", small_bert({}, BertTask::mlm), bert_norms(true), {"mlm.decoder"}));
  out.push_back(
      text<Bert>("bert classifier", small_bert({}, BertTask::classification), bert_norms(false)));
  EncoderDecoderConfig c = small_encoder_decoder({});
  out.push_back(text<EncoderDecoder>("encoder-decoder", c, encoder_decoder_norms(), {"head"}));
  c.placement = Placement::post;
  out.push_back(
      text<EncoderDecoder>("post-norm encoder-decoder", c, post_norm_encoder_decoder_norms()));
  return out;
}

}  // namespace cbwc::testing
