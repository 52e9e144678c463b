#include "core/kernels/dropout.h"

#include <algorithm>

#include "core/kernels/cpu/philox_words.h"
#include "core/parallel.h"

namespace cbwc::cpu {
namespace {
constexpr int64_t kChunk = 4096;  // draws; a multiple of 4: every chunk starts a Philox block

// y[i] = keep[i] ? x[i] / (1 - p) : 0, for draws [begin, end) of one element each
template <class T>
void elements(const Dropout<T>& a, const uint32_t* words, int64_t begin, int64_t end, T scale) {
  const uint32_t least = keep_threshold(a.p);
  const T* x = a.x + begin;
  T* y = a.y + begin;
#pragma omp simd
  for (int64_t i = 0; i < end - begin; ++i) y[i] = (words[i] >> 8) >= least ? x[i] * scale : T(0);
}

template <class T>
void groups(const Dropout<T>& a, const uint32_t* words, int64_t begin, int64_t end, T scale) {
  const uint32_t least = keep_threshold(a.p);
  for (int64_t i = begin; i < end; ++i) {
    const bool keep = (words[i - begin] >> 8) >= least;
    const T* x = a.x + i * a.group;
    T* y = a.y + i * a.group;
#pragma omp simd
    for (int64_t j = 0; j < a.group; ++j) y[j] = keep ? x[j] * scale : T(0);
  }
}
}  // namespace

template <class T>
void dropout(const Dropout<T>& a) {
  if (a.n == 0) return;
  const T scale = a.p < 1 ? static_cast<T>(1 / (1 - a.p)) : T(0);
  // Few large groups share a chunk, so that the threads have something to divide.
  const int64_t grain = std::clamp<int64_t>(16384 / a.group / 4 * 4, 4, kChunk);
  parallel_for(a.n / a.group, grain, [&](int64_t begin, int64_t end) {
    // Chunks are at most kChunk draws; alone, a small n may come as one longer piece.
    for (int64_t from = begin; from < end; from += kChunk) {
      const int64_t to = std::min(end, from + kChunk);
      uint32_t words[kChunk];
      philox_words(a.key, a.first_block + static_cast<uint64_t>(from / 4),
                   dropout_blocks(to - from), words);
      a.group == 1 ? elements(a, words, from, to, scale) : groups(a, words, from, to, scale);
    }
  });
}

template void dropout(const Dropout<float>&);
template void dropout(const Dropout<double>&);

}  // namespace cbwc::cpu
