#include "layers/beam_cache.h"

#include <algorithm>

#include "core/check.h"

namespace cbwc {

BeamCache::BeamCache(int64_t layers, int64_t heads, int64_t capacity, int64_t width, DType dtype)
    : layers_(layers), heads_(heads), capacity_(capacity), width_(width), dtype_(dtype) {}

void BeamCache::rearrange(const std::vector<int64_t>& rows) {
  auto next = std::make_unique<KvCache>(std::ssize(rows), capacity_);
  const int64_t used = cache_ == nullptr ? 0 : cache_->length;
  const Shape shape = {next->batch, heads_, capacity_, width_};
  for (size_t l = 0; l < static_cast<size_t>(layers_); ++l) {
    next->layers.push_back({Tensor::empty(shape, dtype_), Tensor::empty(shape, dtype_)});
    if (used == 0) continue;
    const KvCache::Layer &from = cache_->layers[l], &to = next->layers[l];
    for (const auto& [x, y] : {std::pair{from.keys, to.keys}, {from.values, to.values}}) {
      for (int64_t r = 0; r < next->batch; ++r) {
        const int64_t row = rows[static_cast<size_t>(r)];
        y.slice(0, r, r + 1)
            .slice(2, 0, used)
            .copy_from(x.slice(0, row, row + 1).slice(2, 0, used));
      }
    }
  }
  next->length = used;
  cache_ = std::move(next);
}

KvCache& BeamCache::follow(const Tensor& prefixes, const std::vector<int64_t>& sentences) {
  const int64_t count = prefixes.size(0), length = prefixes.size(1), known = length - 1;
  const int64_t width = count / std::ssize(sentences);
  const std::vector<int32_t> ids = prefixes.to_vector<int32_t>();
  std::vector<int64_t> rows, owners;
  for (int64_t r = 0; r < count; ++r) {
    owners.push_back(sentences[static_cast<size_t>(r / width)]);
    int64_t parent = 0;
    if (known > 0) {
      const auto start = ids.begin() + r * length;
      while (parent < std::ssize(owners_) &&
             (owners_[static_cast<size_t>(parent)] != owners.back() ||
              !std::equal(start, start + known, before_.begin() + parent * known)))
        ++parent;
      CBWC_CHECK(parent < std::ssize(owners_), "beam cache: prefix ", r,
                 " does not go on from the step before");
    }
    rows.push_back(parent);
  }
  bool same = cache_ != nullptr && cache_->batch == count;
  for (int64_t r = 0; same && r < count; ++r) same = rows[static_cast<size_t>(r)] == r;
  if (known == 0) cache_ = nullptr;
  if (cache_ == nullptr || !same) rearrange(rows);
  CBWC_CHECK(cache_->length == known, "beam cache: it holds ", cache_->length, " tokens of ",
             known);
  before_ = ids;
  owners_ = std::move(owners);
  return *cache_;
}

}  // namespace cbwc
