// BERT: the sum of token, position and type embeddings, a norm, dropout; post-norm blocks in which
// every token sees all that are not padding; one of these heads:
//   mlm             dense, GELU, norm, then the token table as projection, and a bias
//   classification  pooler (dense and tanh on the first token), dropout, projection
//   hidden_states   none: what the last block gives
// Everything below the heads has the same names for all tasks.
//
// What Note [Arms] gives here: the layers that write in front of each norm are centred and the
// norms become RMSNorms, but only the embedding norm is then the same function (1 of 2L + 1). The
// other norms read the affine output of the norm before them through the residual, which has a mean
// whatever is centred; the mlm head's reads a GELU (method.md 6).
#pragma once
#include "layers/text_parts.h"
#include "layers/tied_linear.h"

namespace cbwc {

enum class BertTask { mlm, classification, hidden_states };
BertTask parse_bert_task(const std::string& name);
const char* bert_task_name(BertTask task);

struct BertConfig : TextConfig {
  int64_t types = 2;    // kinds of token
  int64_t classes = 0;  // of classification
  BertTask task = BertTask::mlm;
  Gelu gelu = Gelu::erf;
};

class Bert : public Model {
 public:
  Bert(const BertConfig& config, uint64_t seed);  // Error for sizes that do not fit together
  std::string describe() const override;
  const BertConfig& config() const { return config_; }
  DType dtype() const override { return config_.dtype; }

  // Reads ids, mask, token_types and, for mlm, rows. (B, T, vocab), (N, vocab), (B, classes)
  // or (B, T, dim).
  Variable logits(const ModelInput& input, const Context& context) override;
  // What the last block gives, whatever the head: (B, T, dim).
  Variable hidden_states(const ModelInput& input, const Context& context);
  ModelInput example(int64_t batch, uint64_t seed) const override;
  void project_parameters() override;

 private:
  Variable embed(const ModelInput& input, const Context& context);
  const BertConfig config_;
  std::unique_ptr<Embedding> tokens_, positions_, types_;
  std::unique_ptr<NormLayer> embedding_norm_;
  std::unique_ptr<Dropout> dropout_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  // mlm
  std::unique_ptr<Linear> dense_;
  std::unique_ptr<NormLayer> head_norm_;
  std::unique_ptr<TiedLinear> decoder_;
  ParameterPtr decoder_bias_;
  // classification
  std::unique_ptr<Linear> pooler_;
  std::unique_ptr<Dropout> pooled_dropout_;
  std::unique_ptr<Linear> classifier_;
};

}  // namespace cbwc
