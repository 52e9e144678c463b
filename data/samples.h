// Samples that can be fetched in any order (images, sentences, pairs), and the DataSplit over them.
// Every epoch visits all of them in a random order that is a function of (seed, epoch) only; what
// is random within a sample (a crop, a mask) is a function of (seed, epoch, sample). So the stream
// is the same for any number of workers, with or without prefetch (cases.md P65).
#pragma once
#include <string>
#include <vector>

#include "core/rng.h"
#include "data/data_split.h"

namespace cbwc {

struct Draw {
  int64_t sample = 0, epoch = 0;
  uint64_t seed = 0;
  Rng rng(const std::string& purpose) const;  // of this sample in this epoch
};

// Const calls come from several threads at once. They do not start threads of their own: the
// workers are the parallelism.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual int64_t size() const = 0;
  virtual int64_t length(int64_t sample) const = 0;  // tokens, where lengths differ; else 0
  virtual Batch train_batch(const std::vector<Draw>& draws) const = 0;
  virtual Batch eval_batch(const std::vector<int64_t>& samples) const = 0;
};

// by_length 0: plain random order; a batch at the end of an epoch is filled from the next one.
// Else every stretch of that many batches of the random order is sorted by length before it is cut
// into batches, and these are shuffled: less padding. Then the last batch of an epoch has what is
// left, and a position is the start of a batch (Error otherwise: the batch size has changed).
// With prefetch, at most max(prefetch, workers) batches are made ahead.
std::shared_ptr<const DataSplit> split_of(std::shared_ptr<const Samples> samples,
                                          int64_t by_length = 0);

// How fast a stream gives samples when nobody else works: `batches` batches after a first one.
struct StreamSpeed {
  double samples_per_second = 0, seconds = 0;
  int64_t samples = 0;
};
StreamSpeed measure_stream(BatchStream& stream, int64_t batches);

// What a pass over `count` of `size` samples takes as its k-th: a part of a split is spread evenly
// over it, for files are often sorted by class.
int64_t pass_sample(int64_t k, int64_t count, int64_t size);

}  // namespace cbwc
