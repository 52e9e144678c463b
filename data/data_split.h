// One split of a data set as training and evaluation see it: an endless seeded stream of batches,
// and one pass in order. Every kind of file gives this; nobody above knows which one it was.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "core/tensor.h"

namespace cbwc {

// Host tensors, one sample a row. What a task does not have stays undefined.
struct Batch {
  Tensor ids = {};          // (B, T) int32 tokens; of the source in a translation
  Tensor targets = {};      // (B, T), (B, S), (B) or (N) int32: token, class; kIgnoredTarget: none
  int64_t positions = 0;    // what was read from the stream once this batch is done
  Tensor mask = {};         // (B, T) int32, 1 = a token, 0 = padding; undefined: no padding
  Tensor token_types = {};  // (B, T) int32, 0 = first text, 1 = second
  Tensor decoder_ids = {};  // (B, S) int32: the translation so far, shifted right
  Tensor rows = {};         // (N) int32: flat places b * T + t that `targets` (N) speaks of
  Tensor images = {};       // (B, channels, H, W) float32, normalised
  Tensor mixed_targets = {};  // (B) int32: the other image's class (mixup, cutmix)
  double share = 1;           // of `targets` in the loss; the rest is mixed_targets'
};
inline constexpr int32_t kIgnoredTarget = -100;

struct StreamOptions {
  int64_t batch_size = 1;
  uint64_t seed = 0;
  int64_t position = 0;  // a saved position() continues the stream exactly
  int64_t prefetch = 2;  // batches made ahead on other threads; 0: made when asked for
  int64_t workers = 1;   // threads that make them; the stream does not depend on it
};

class BatchStream {
 public:
  virtual ~BatchStream() = default;
  virtual Batch next() = 0;
  virtual int64_t position() const = 0;  // after the last batch that next() gave
  virtual double epoch() const = 0;      // position in epochs
};

class BatchPass {
 public:
  virtual ~BatchPass() = default;
  virtual std::optional<Batch> next() = 0;  // the last one may have fewer rows
  virtual int64_t batches() const = 0;
};

class DataSplit {
 public:
  virtual ~DataSplit() = default;
  virtual int64_t samples() const = 0;
  virtual std::unique_ptr<BatchStream> stream(const StreamOptions& options) const = 0;
  // max_batches 0: the whole split, in order.
  virtual std::unique_ptr<BatchPass> pass(int64_t batch_size, int64_t max_batches) const = 0;
};

}  // namespace cbwc
