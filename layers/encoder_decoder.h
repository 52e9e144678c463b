// The encoder-decoder Transformer: a bidirectional encoder, and a causal decoder whose blocks
// attend to the encoder's output. One token table for both languages or two; learned or sinusoidal
// positions; pre-norm stacks end in a norm.
//
// Which norms CBWC + RMSNorm computes exactly (without dropout; the detector finds the same):
//   pre   all 2 L + 1 of the encoder and 3 L' + 1 of the decoder: both streams are sums of tables
//         and branch outputs, which norms alone read. The encoder's last norm feeds the decoder's
//         cross-attention, and its own input is such a sum. A tied head reads the raw table.
//   post  none: each stream is read raw by the first attention, and then holds affine norms.
#pragma once
#include "layers/beam_cache.h"
#include "layers/beam_search.h"
#include "layers/cross_attention.h"
#include "layers/text_parts.h"
#include "layers/tied_linear.h"

namespace cbwc {

struct EncoderDecoderConfig : TextConfig {  // vocab: the source's; layers: the encoder's
  int64_t target_vocab = 0;                 // 0: both languages share the table "tokens"
  int64_t decoder_layers = 0;               // 0: as many as layers
  Placement placement = Placement::pre;
  Activation activation = Activation::gelu_tanh;
  bool sinusoidal = false;       // positions
  bool scale_embedding = false;  // token rows times sqrt(dim), as where sinusoids are added to them
  bool tied_head = true;         // the head reads the target's table
};

class EncoderDecoder : public Model {
 public:
  EncoderDecoder(const EncoderDecoderConfig& config, uint64_t seed);
  std::string describe() const override;
  const EncoderDecoderConfig& config() const { return config_; }
  DType dtype() const override { return config_.dtype; }

  // Reads ids, mask, decoder_ids and rows (of the decoder: b * S + s). (B, S, vocab) or (N, vocab).
  Variable logits(const ModelInput& input, const Context& context) override;
  ModelInput example(int64_t batch, uint64_t seed) const override;
  void project_parameters() override;

  // The best translation of every row of ids, without begin and end tokens. max_length 0, or more
  // than the context: the context.
  std::vector<std::vector<int32_t>> translate(const Tensor& ids, const Tensor& mask,
                                              BeamOptions options);

 private:
  struct Memory {                // the encoder's output as the decoder reads it
    std::vector<Variable> keys;  // of every block (B, T, 2 C)
    Tensor mask;
  };
  struct Side {  // what comes before the blocks
    std::unique_ptr<Embedding> own_tokens, positions;
    Embedding* tokens = nullptr;
    std::unique_ptr<Dropout> dropout;
  };
  Side make_side(const std::string& name, int64_t vocab, Embedding* shared, const Init& init);
  Variable embed(Side& side, const Tensor& ids, const Context& context, int64_t position = 0);
  Memory encode(const Tensor& ids, const Tensor& mask, const Context& context);
  Memory of_sentences(const Memory& all, const std::vector<int64_t>& sentences) const;
  // decoder_ids (n B, S): n rows beside each other translate the same sentence. (n B, S, C). With a
  // cache they come after the tokens that it holds.
  Variable decode(const Tensor& ids, const Memory& memory, const Context& context,
                  KvCache* cache = nullptr);
  Variable head(const Variable& x);
  int64_t target_vocab() const;

  const EncoderDecoderConfig config_;
  std::unique_ptr<Embedding> shared_tokens_;
  Side source_, target_;
  std::vector<std::unique_ptr<TransformerBlock>> encoder_;
  std::unique_ptr<NormLayer> encoder_norm_;  // null for post-norm
  std::vector<std::unique_ptr<CrossBlock>> decoder_;
  std::unique_ptr<NormLayer> decoder_norm_;  // likewise
  std::unique_ptr<TiedLinear> tied_head_;
  std::unique_ptr<Linear> head_;
};

}  // namespace cbwc
