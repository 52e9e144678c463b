// Batches made before the clock starts, for what measures a training step alone.
#pragma once
#include <vector>

#include "data/data_split.h"

namespace cbwc {

// The first `count` batches of a split's stream, over and over: next() only hands one out, so that
// neither the step's own thread nor another one works on data while a step is timed. Error for
// another batch size, or a stream that does not start at 0.
class PreparedBatches : public DataSplit {
 public:
  PreparedBatches(const DataSplit& split, const StreamOptions& options, int64_t count);
  int64_t samples() const override { return batch_size_ * static_cast<int64_t>(batches_->size()); }
  std::unique_ptr<BatchStream> stream(const StreamOptions& options) const override;
  std::unique_ptr<BatchPass> pass(int64_t batch_size, int64_t max_batches) const override;

 private:
  const int64_t batch_size_;
  std::shared_ptr<const std::vector<Batch>> batches_;
};

}  // namespace cbwc
