// BeamCache: the KV cache of a beam search (layers/beam_search.h), whose rows leave, double and
// change places from step to step.
#pragma once
#include <memory>
#include <vector>

#include "layers/kv_cache.h"

namespace cbwc {

class BeamCache {
 public:
  // What a cache's layers look like: keys and values of (rows, heads, capacity, width).
  BeamCache(int64_t layers, int64_t heads, int64_t capacity, int64_t width, DType dtype);

  // For a step of the search: its row r holds what belongs to prefix r without the last token,
  // which is what is to be fed. The prefixes must be those of the step before with a token more.
  KvCache& follow(const Tensor& prefixes, const std::vector<int64_t>& sentences);

 private:
  void rearrange(const std::vector<int64_t>& rows);  // row r becomes what rows[r] was
  const int64_t layers_, heads_, capacity_, width_;
  const DType dtype_;
  std::unique_ptr<KvCache> cache_;  // null before the first step
  std::vector<int32_t> before_;     // the last step's prefixes, row by row
  std::vector<int64_t> owners_;     // whose sentence each of them was
};

}  // namespace cbwc
