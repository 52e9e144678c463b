// KvCache: the keys and values that a decoder's attentions have computed for the tokens so far, so
// that the next ones need only their own (Model::next_logits). For inference: no tape records it.
#pragma once
#include <vector>

#include "core/tensor.h"

namespace cbwc {

struct KvCache {
  struct Layer {
    Tensor keys, values;  // (batch, kv heads, capacity, head dim); rows from `length` on are free
  };

  KvCache(int64_t batch, int64_t capacity) : batch(batch), capacity(capacity) {}
  size_t bytes() const;
  void clear() { length = 0; }
  void truncate(int64_t tokens);          // keeps the first; Error when there are fewer
  void check_room(int64_t tokens) const;  // Error naming what is there, asked for and the capacity

  const int64_t batch, capacity;
  int64_t length = 0;  // tokens of every row so far, and the next one's place
  std::vector<Layer> layers = {};
};

// What one attention is given of it: its layer, and how many tokens that holds already.
struct KvSlot {
  KvCache::Layer* layer = nullptr;  // null: no cache, every token is in the input
  int64_t length = 0;
  // Appends (batch, heads, n, head dim) behind `length`; views of all length + n.
  KvCache::Layer append(const Tensor& keys, const Tensor& values) const;
};

}  // namespace cbwc
