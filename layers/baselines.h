// The simplest models of a task, without any norm: what an architecture has to beat.
#pragma once
#include "layers/embedding.h"
#include "layers/linear.h"
#include "layers/model.h"

namespace cbwc {

enum class Baseline {
  linear,       // pixels -> classes
  mlp,          // pixels -> hidden, ReLU -> classes
  bag_of_words  // the mean of a text's token vectors -> classes
};
Baseline parse_baseline(const std::string& name);
const char* baseline_name(Baseline kind);

struct BaselineConfig {
  Baseline kind = Baseline::linear;
  int64_t channels = 1, image = 0;  // linear, mlp
  int64_t vocab = 0;                // bag_of_words
  int64_t hidden = 256;             // of mlp; width of a token vector
  int64_t classes = 0;
  DType dtype = DType::f32;
  double init_std = 0.02;
};

class BaselineModel : public Model {
 public:
  BaselineModel(const BaselineConfig& config, uint64_t seed);
  std::string describe() const override;
  Variable logits(const ModelInput& input, const Context& context) override;  // (B, classes)
  DType dtype() const override { return config_.dtype; }
  ModelInput example(int64_t batch, uint64_t seed) const override;

 private:
  Variable features(const ModelInput& input);  // (B, what the head reads)
  const BaselineConfig config_;
  std::unique_ptr<Embedding> tokens_;  // bag_of_words
  std::unique_ptr<Linear> hidden_;     // mlp
  std::unique_ptr<Linear> head_;
};

}  // namespace cbwc
