#include "layers/bert.h"

#include <fmt/format.h>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "layers/checkpoint_block.h"
#include "layers/choices.h"

namespace cbwc {
namespace {

constexpr Choices<BertTask, 3> kTasks = {{{"mlm", BertTask::mlm},
                                          {"classification", BertTask::classification},
                                          {"hidden_states", BertTask::hidden_states}}};
constexpr int64_t kExampleTokens = 6;

BertConfig checked(const BertConfig& c) {
  check_config(c);
  CBWC_CHECK(c.types > 0, "model: BERT needs at least one token type");
  CBWC_CHECK(
      c.task != BertTask::classification || c.classes > 0,
      "model: classification needs at least 1 class (of the data file, or model.classes), got ",
      c.classes);
  return c;
}

}  // namespace

BertTask parse_bert_task(const std::string& name) { return parse_choice(kTasks, name, "task"); }
const char* bert_task_name(BertTask task) { return choice_name(kTasks, task); }

Bert::Bert(const BertConfig& config, uint64_t seed) : Model(nullptr, ""), config_(checked(config)) {
  const BertConfig& c = config_;
  const Init init = text_init(c, seed), output_init = writer_init(c, seed, 2 * c.layers);
  // No dropout lies between the tables and their norm: centring the rows is exact wherever
  // dropout is placed.
  const bool centered = centres_writers(c.norm);
  tokens_ = make_embedding(centered, this, "tokens", c.vocab, c.dim, Role::embedding, init);
  positions_ = make_embedding(centered, this, "positions", c.context, c.dim, Role::position, init);
  types_ = make_embedding(centered, this, "types", c.types, c.dim, Role::embedding, init);
  embedding_norm_ = text_norm(this, "embedding_norm", c);
  dropout_ = make_sum_dropout(this, "dropout", branch_options(c));
  const BlockOptions block = block_options(c, Placement::post, activation_of(c.gelu), false);
  for (int64_t i = 0; i < c.layers; ++i) {
    blocks_.push_back(std::make_unique<TransformerBlock>(this, fmt::format("blocks.{}", i), block,
                                                         init, output_init));
  }
  if (c.task == BertTask::mlm) {
    dense_ = std::make_unique<Linear>(this, "mlm.dense", c.dim, c.dim, true, init);
    head_norm_ = text_norm(this, "mlm.norm", c);
    decoder_ = std::make_unique<TiedLinear>(this, "mlm.decoder", tokens_->weight());
    decoder_bias_ = add_constant_parameter("mlm.bias", {c.vocab}, Role::bias, 0.0, c.dtype);
  } else if (c.task == BertTask::classification) {
    pooler_ = std::make_unique<Linear>(this, "pooler", c.dim, c.dim, true, init);
    pooled_dropout_ = std::make_unique<Dropout>(this, "pooled_dropout", c.dropout);
    classifier_ = std::make_unique<Linear>(this, "classifier", c.dim, c.classes, true, init);
  }
  project_parameters();
}

std::string Bert::describe() const {
  return fmt::format("BERT for {}, {} layers, dim {}, {} heads, context {}, vocabulary {}, {}",
                     bert_task_name(config_.task), config_.layers, config_.dim, config_.heads,
                     config_.context, config_.vocab, norm_name(config_.norm));
}

Variable Bert::embed(const ModelInput& input, const Context& context) {
  check_tokens(input.ids, input.mask, config_.context, "ids");
  const bool typed = input.token_types.defined();
  CBWC_CHECK(!typed || input.token_types.shape() == input.ids.shape(),
             "model: token_types have shape ", to_string(input.token_types.shape()), ", ids ",
             to_string(input.ids.shape()));
  const Tensor kinds = typed ? input.token_types : Tensor::zeros(input.ids.shape(), DType::i32);
  const Variable words = tokens_->forward(input.ids);
  const Variable where = positions_->forward(consecutive(input.ids.size(1)));
  const Variable x = add(add(words, where), types_->forward(kinds));
  return dropout_->forward(embedding_norm_->forward(x, context), context);
}

Variable Bert::hidden_states(const ModelInput& input, const Context& context) {
  Variable x = embed(input, context);
  for (auto& block : blocks_) {
    x = run_block({x}, context,
                  [b = block.get(), mask = input.mask](const auto& in, const Context& c) {
                    return b->forward(in[0], c, mask);
                  });
  }
  return x;
}

Variable Bert::logits(const ModelInput& input, const Context& context) {
  const Variable x = hidden_states(input, context);
  if (config_.task == BertTask::mlm) {
    const Variable dense = dense_->forward(select_rows(x, input.rows));
    const auto named = [](const auto& op) {
      const ScopeGuard scope("mlm");
      return op();
    };
    const Variable h = named([&] { return gelu(dense, config_.gelu); });
    const Variable y = decoder_->forward(head_norm_->forward(h, context));
    return named([&] { return add(y, use(decoder_bias_)); });
  }
  CBWC_CHECK(!input.rows.defined(), "model: a BERT for ", bert_task_name(config_.task),
             " reads no rows");
  if (config_.task == BertTask::hidden_states) return x;
  const Variable first = reshape(slice(x, 1, 0, 1), {x.size(0), config_.dim});
  const Variable pooled = pooled_dropout_->forward(tanh(pooler_->forward(first)), context);
  return classifier_->forward(pooled);
}

ModelInput Bert::example(int64_t batch, uint64_t seed) const {
  const int64_t tokens = std::min(config_.context, kExampleTokens);
  ModelInput out = example_text(batch, tokens, config_.vocab, seed);
  std::vector<int32_t> types;
  for (int64_t i = 0; i < batch * tokens; ++i)
    types.push_back(static_cast<int32_t>(i % tokens * config_.types / tokens));
  out.token_types = Tensor::from(types, {batch, tokens});
  return out;
}

void Bert::project_parameters() {
  if (config_.norm != Norm::cbwc_projected) return;
  for (const Embedding* table : {tokens_.get(), positions_.get(), types_.get()})
    project_table(*table);
  for (const auto& block : blocks_) project_block(*block);
}

}  // namespace cbwc
