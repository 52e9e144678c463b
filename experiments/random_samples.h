// Random samples of a task, for benchmarks and checks that need no data.
#pragma once
#include "data/samples.h"
#include "experiments/model_build.h"

namespace cbwc {

// Of sample i, whatever the epoch: noise images, or `window` random tokens, with a random class,
// masked tokens or a translation.
class RandomSamples : public Samples {
 public:
  RandomSamples(const Config& config, const DataShape& shape, int64_t samples, int64_t window,
                uint64_t seed);
  int64_t size() const override { return samples_; }
  int64_t length(int64_t) const override { return 0; }
  Batch train_batch(const std::vector<Draw>& draws) const override;
  Batch eval_batch(const std::vector<int64_t>& samples) const override;

 private:
  const Task task_;
  const bool images_;
  const DataShape shape_;
  const int64_t samples_, window_, image_;
  const double mask_probability_;
  const uint64_t seed_;
};

}  // namespace cbwc
