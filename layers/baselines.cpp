#include "layers/baselines.h"

#include <fmt/format.h>

#include "autograd/ops/activation.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "layers/choices.h"
#include "layers/text_parts.h"
#include "layers/vision_parts.h"

namespace cbwc {
namespace {

constexpr Choices<Baseline, 3> kBaselines = {{{"linear", Baseline::linear},
                                              {"mlp", Baseline::mlp},
                                              {"bag_of_words", Baseline::bag_of_words}}};

// (B, T, 1): what each token counts in the mean of its text.
Tensor token_weights(const Tensor& ids, const Tensor& mask, DType dtype) {
  const int64_t b = ids.size(0), t = ids.size(1);
  std::vector<double> weights(static_cast<size_t>(b * t), 1.0 / static_cast<double>(t));
  if (mask.defined()) {
    const std::vector<int32_t> seen = mask.contiguous().to_vector<int32_t>();
    for (int64_t row = 0; row < b; ++row) {
      int64_t count = 0;
      for (int64_t i = 0; i < t; ++i) count += seen[static_cast<size_t>(row * t + i)] != 0;
      for (int64_t i = 0; i < t; ++i) {
        const auto at = static_cast<size_t>(row * t + i);
        weights[at] = seen[at] != 0 ? 1.0 / static_cast<double>(count) : 0.0;
      }
    }
  }
  return Tensor::from(weights, {b, t, 1}).to(dtype);
}

}  // namespace

Baseline parse_baseline(const std::string& name) {
  return parse_choice(kBaselines, name, "baseline");
}
const char* baseline_name(Baseline kind) { return choice_name(kBaselines, kind); }

BaselineModel::BaselineModel(const BaselineConfig& config, uint64_t seed)
    : Model(nullptr, ""), config_(config) {
  const bool text = config_.kind == Baseline::bag_of_words;
  CBWC_CHECK(config_.classes > 0 && config_.hidden > 0 &&
                 (text ? config_.vocab > 0 : config_.channels > 0 && config_.image > 0),
             "model: the sizes of a ", baseline_name(config_.kind), " baseline must be positive");
  const Init init{seed, config_.dtype, config_.init_std};
  int64_t in = config_.channels * config_.image * config_.image;
  if (text) {
    tokens_ =
        make_embedding(false, this, "tokens", config_.vocab, config_.hidden, Role::embedding, init);
    in = config_.hidden;
  }
  if (config_.kind == Baseline::mlp) {
    hidden_ = std::make_unique<Linear>(this, "hidden", in, config_.hidden, true, init);
    in = config_.hidden;
  }
  head_ = std::make_unique<Linear>(this, "head", in, config_.classes, true, init);
}

std::string BaselineModel::describe() const {
  return fmt::format("{} baseline, {} classes", baseline_name(config_.kind), config_.classes);
}

Variable BaselineModel::features(const ModelInput& input) {
  if (tokens_ != nullptr) {
    check_tokens(input.ids, input.mask, input.ids.defined() ? input.ids.size(1) : 0, "model");
    const Variable weights = token_weights(input.ids, input.mask, config_.dtype);
    return sum(mul(tokens_->forward(input.ids), weights), {1});
  }
  const Tensor& x = input.images;
  CBWC_CHECK(x.defined() && x.rank() == 4 && x.size(1) == config_.channels &&
                 x.size(2) == config_.image && x.size(3) == config_.image,
             "model: images must be (B, ", config_.channels, ", ", config_.image, ", ",
             config_.image, "), got ", x.defined() ? to_string(x.shape()) : "none");
  const Variable flat = x.to(config_.dtype).reshape({x.size(0), -1});
  return hidden_ != nullptr ? relu(hidden_->forward(flat)) : flat;
}

Variable BaselineModel::logits(const ModelInput& input, const Context&) {
  return head_->forward(features(input));
}

ModelInput BaselineModel::example(int64_t batch, uint64_t seed) const {
  if (config_.kind == Baseline::bag_of_words) return example_text(batch, 6, config_.vocab, seed);
  return example_images(batch, config_.channels, config_.image, config_.dtype, seed);
}

}  // namespace cbwc
