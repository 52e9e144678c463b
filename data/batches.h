// TokenWindows: a token split cut into windows, the DataSplit of language modelling. Training:
// every epoch cuts the split into windows of T + 1 tokens (neighbours share one: the last target is
// the next first input) from a random offset, and visits them in a random order. Both are functions
// of (seed, epoch) only, so the stream is the same for any thread count, with or without prefetch,
// and one number says where it stands. Evaluation: the split once, in order, every token but the
// first a target exactly once.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/tensor.h"
#include "data/data_split.h"
#include "data/token_file.h"

namespace cbwc {

// Where each window starts. Window number p (0, 1, ...) of the endless stream.
class BatchOrder {
 public:
  // Error when tokens < context + 1; `name`: of the split, in it.
  BatchOrder(int64_t tokens, int64_t context, uint64_t seed, const std::string& name = "the split");
  int64_t windows_per_epoch() const { return windows_; }
  int64_t start(int64_t position);  // first token of that window; any order, cheap in order

 private:
  void load_epoch(int64_t epoch);
  int64_t tokens_, context_, windows_;
  uint64_t seed_;
  int64_t epoch_ = -1, offset_ = 0;
  std::vector<int64_t> order_;
};

struct BatchOptions {
  int64_t batch_size = 1;
  int64_t context = 1;
  uint64_t seed = 0;
  int64_t position = 0;  // windows already read: a saved position() continues the stream exactly
  int64_t prefetch = 2;  // batches made ahead on another thread; 0: made when asked for
};

// Endless. A batch at the end of an epoch is filled from the next one.
class TrainBatches : public BatchStream {
 public:
  TrainBatches(std::shared_ptr<const TokenSplit> split, BatchOptions options);
  ~TrainBatches() override;
  TrainBatches(TrainBatches&&) noexcept;
  Batch next() override;
  int64_t position() const override;
  int64_t windows_per_epoch() const;
  double epoch() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The last window may be padded (kIgnoredTarget), the last batch may have fewer rows.
class EvalBatches : public BatchPass {
 public:
  // max_batches 0: the whole split. Error when the split has fewer than two tokens.
  EvalBatches(std::shared_ptr<const TokenSplit> split, int64_t batch_size, int64_t context,
              int64_t max_batches = 0);
  std::optional<Batch> next() override;
  void rewind() { position_ = 0; }
  int64_t batches() const override;

 private:
  std::shared_ptr<const TokenSplit> split_;
  int64_t batch_size_, context_, windows_, position_ = 0;
};

class TokenWindows : public DataSplit {
 public:
  TokenWindows(std::shared_ptr<const TokenSplit> split, int64_t context)
      : split_(std::move(split)), context_(context) {}
  int64_t samples() const override { return (split_->size() - 1 + context_ - 1) / context_; }
  std::unique_ptr<BatchStream> stream(const StreamOptions& o) const override {
    return std::make_unique<TrainBatches>(
        split_, BatchOptions{o.batch_size, context_, o.seed, o.position, o.prefetch});
  }
  std::unique_ptr<BatchPass> pass(int64_t batch_size, int64_t max_batches) const override {
    return std::make_unique<EvalBatches>(split_, batch_size, context_, max_batches);
  }

 private:
  const std::shared_ptr<const TokenSplit> split_;
  const int64_t context_;
};

}  // namespace cbwc
