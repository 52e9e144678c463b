#include "layers/kv_cache.h"

#include "core/check.h"

namespace cbwc {

size_t KvCache::bytes() const {
  size_t sum = 0;
  for (const Layer& layer : layers) sum += layer.keys.bytes() + layer.values.bytes();
  return sum;
}

void KvCache::truncate(int64_t tokens) {
  CBWC_CHECK(tokens >= 0 && tokens <= length, "KV cache: it cannot be cut to ", tokens,
             " tokens, it holds ", length);
  length = tokens;
}

void KvCache::check_room(int64_t tokens) const {
  CBWC_CHECK(length + tokens <= capacity, "KV cache: ", tokens, " tokens more than the ", length,
             " it holds are ", length + tokens, ", beyond its capacity of ", capacity);
}

KvCache::Layer KvSlot::append(const Tensor& keys, const Tensor& values) const {
  const int64_t end = length + keys.size(2);
  KvCache::Layer seen{layer->keys.slice(2, 0, end), layer->values.slice(2, 0, end)};
  seen.keys.slice(2, length, end).copy_from(keys);
  seen.values.slice(2, length, end).copy_from(values);
  return seen;
}

}  // namespace cbwc
