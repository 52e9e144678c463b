// One model in training: parameters, optimiser, data and random streams, and what one step does.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/checkpoint.h"
#include "data/json.h"
#include "experiments/model_setup.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/sgd.h"

namespace cbwc {

// The micro-batches of one optimiser step. Losses are sums over tokens, so that every token of the
// window weighs the same, however full its micro-batch or the window is (cases.md P44, P45).
class TokenWindow {
 public:
  void add(Tape& tape, const CrossEntropyResult& result);      // runs the backward
  int64_t tokens() const { return tokens_; }                   // targets that were not ignored
  double mean_loss() const;                                    // 0 for an empty window
  double unit_scale() const { return window_scale(tokens_); }  // makes gradient sums a mean

 private:
  double loss_sum_ = 0;
  int64_t tokens_ = 0;
};

// A loss or a gradient that is not finite; the weights are those before the step.
class NonFiniteError : public RunError {
 public:
  NonFiniteError(int64_t step, double loss, const std::string& what)
      : RunError(what), step(step), loss(loss) {}
  const int64_t step;
  const double loss;
};

struct StepRequest {
  LayerStatistics* statistics = nullptr;  // filled in the first micro-batch, as it is trained on
  bool grad_depth = false;
};

struct StepResult {
  int64_t step = 0;    // counts from 1
  int64_t tokens = 0;  // trained on in this step
  double loss = 0;     // of this step, mean over tokens
  double lr = 0, grad_norm = 0;
  double step_ms = 0, forward_ms = 0, backward_ms = 0, norm_ms = 0, update_ms = 0;
  bool skipped = false;  // no update: nothing to learn from, or not finite and optim.nonfinite=skip
  std::vector<std::pair<std::string, double>> depth;  // gradient norm by module
};

// What a model is worth on a split.
struct Evaluation {
  double loss = 0;                                    // mean over targets
  int64_t targets = 0;                                // that were not ignored
  std::string metric;                                 // metric_of() the config
  nlohmann::json metrics = nlohmann::json::object();  // {name: value}, as in metrics.h
  double value() const;  // of `metric`; nan where this evaluation has not got it (bleu)
};
std::string metric_of(const Config& config);

class Trainer {
 public:
  // `model`: built for the config (null: a fresh one of the seed).
  Trainer(const Config& config, int64_t seed, TrainingData data,
          std::unique_ptr<Model> model = nullptr);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  StepResult step(const StepRequest& request = {});                  // throws NonFiniteError
  Evaluation evaluate(const DataSplit& split, int64_t max_batches);  // max_batches 0: all of it
  Evaluation evaluate() { return evaluate(*data_.eval, config_.run.eval_batches); }
  // What is measured once, at the end of a run: adds BLEU to a translation's metrics.
  void add_final_metrics(nlohmann::json& metrics, int64_t samples);

  // Everything that decides the next step's bits, and back. `extra` is kept in the attributes.
  Checkpoint save(const nlohmann::json& extra) const;
  nlohmann::json load(const Checkpoint& checkpoint);  // returns `extra`; Error when it does not fit

  void load_weights(const Checkpoint& checkpoint);  // and the step; not what going on needs

  Model& model() { return *model_; }
  FlatParameters& parameters() { return flat_; }
  int64_t steps() const { return step_; }
  int64_t skipped() const { return skipped_; }
  int64_t skipped_images() const;  // since the run began (data.bad_images = "skip")
  double epoch() const { return batches_->epoch(); }
  void set_observer(TapeObserver observer) { observer_ = std::move(observer); }

 private:
  void open_batches(int64_t position);
  void check_finite(const StepResult& result, bool finite, const std::vector<Batch>& window,
                    const Rng& rng);
  void update(double lr, double scale);

  const Config config_;
  const TrainingData data_;
  const int64_t seed_;
  const std::unique_ptr<Model> model_;
  FlatParameters flat_;
  std::unique_ptr<AdamW> adamw_;  // one of the two
  std::unique_ptr<Sgd> sgd_;
  const Schedule schedule_;
  Rng rng_;  // dropout's
  std::unique_ptr<BatchStream> batches_;
  TapeObserver observer_;
  int64_t step_ = 0, skipped_ = 0;
};

// Error when the checkpoint of these attributes was trained on data other than `file`'s.
void check_checksum(const nlohmann::json& attributes, const TrainingData& data,
                    const std::string& file);

// Norm of the scaled gradients of each block ("blocks.0", "encoder.1", "stages.0.blocks.1") and of
// each other top module.
std::vector<std::pair<std::string, double>> gradient_depth(const FlatParameters& parameters,
                                                           double scale);

}  // namespace cbwc
