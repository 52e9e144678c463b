// What attention's forward and backward share: packed blocks, scores, dropout, the loop over heads.
#pragma once
#include <omp.h>

#include <algorithm>

#include "core/kernels/attention.h"
#include "core/kernels/cpu/philox_words.h"
#include "core/kernels/cpu/small_gemm.h"
#include "core/kernels/cpu/vector_math.h"
#include "core/tensor.h"

namespace cbwc::cpu {

constexpr int64_t kBlock = 64;  // queries, or keys, per block; a multiple of 4 and of 16
constexpr int64_t kSquare = kBlock * kBlock;
// Rows, or keys, handled together within a block: on the diagonal of a causal mask the earlier rows
// see fewer keys, and only whole groups of them are computed. A whole number of vectors.
constexpr int64_t kGroup = 16;

inline int64_t whole_groups(int64_t n) { return (n + kGroup - 1) & ~(kGroup - 1); }

inline int64_t blocks_of(int64_t n) { return (n + kBlock - 1) / kBlock; }

template <class T>
void pack_rows(const HeadView<const T>& x, int64_t b, int64_t h, int64_t n, int64_t D, T* to) {
  const T* from = x.data + b * x.b + h * x.h;
  for (int64_t t = 0; t < n; ++t) std::copy(from + t * x.t, from + t * x.t + D, to + t * D);
}

// Rows i and i + S exchange the lanes that are S apart: one step of turning a tile over.
template <class T, int S>
inline void exchange_lanes(typename Vector<T>::type* rows) {
  using Vec = typename Vector<T>::type;
  constexpr int L = Vector<T>::kLanes;
  decltype(Vec{} < Vec{}) low{}, high{};
#pragma GCC unroll 16
  for (int l = 0; l < L; ++l) {
    low[l] = (l & S) != 0 ? L + l - S : l;
    high[l] = (l & S) != 0 ? L + l : l + S;
  }
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) {
    if ((i & S) != 0) continue;
    const Vec a = rows[i], b = rows[i + S];
    rows[i] = __builtin_shuffle(a, b, low);
    rows[i + S] = __builtin_shuffle(a, b, high);
  }
  if constexpr (2 * S < L) exchange_lanes<T, 2 * S>(rows);
}

// to (L, L), rows of kBlock, = the transpose of x (L, L), rows of D, L the lanes of a vector.
template <class T>
void transpose_tile(const T* x, int64_t D, T* to) {
  constexpr int L = Vector<T>::kLanes;
  typename Vector<T>::type rows[L];
  for (int i = 0; i < L; ++i) std::memcpy(&rows[i], x + i * D, sizeof(rows[i]));
  exchange_lanes<T, 1>(rows);
  for (int i = 0; i < L; ++i) std::memcpy(to + i * kBlock, &rows[i], sizeof(rows[i]));
}

// Packed rows (n, D) -> per key block (D, kBlock), zero-padded: the B operand of X K^T.
template <class T>
void transpose_blocks(const T* x, int64_t n, int64_t D, T* to) {
  constexpr int64_t L = Vector<T>::kLanes;
  for (int64_t k0 = 0; k0 < n; k0 += kBlock, to += D * kBlock) {
    const int64_t rows = std::min(kBlock, n - k0), tiled_rows = D % L == 0 ? rows / L * L : 0;
    const T* block = x + k0 * D;
    for (int64_t j = 0; j < tiled_rows; j += L)
      for (int64_t d = 0; d < D; d += L) transpose_tile(block + j * D + d, D, to + d * kBlock + j);
    for (int64_t d = 0; d < D; ++d) {
      for (int64_t j = tiled_rows; j < rows; ++j) to[d * kBlock + j] = block[j * D + d];
      std::fill(to + d * kBlock + rows, to + (d + 1) * kBlock, T(0));
    }
  }
}

// What one (b, h) needs to know to turn raw products into scores of a pair of blocks.
template <class T>
struct Head {
  const AttentionShape& s;
  int64_t b, h;
  const T* bias;

  int64_t row_index(int64_t query) const { return (b * s.H + h) * s.Tq + query; }
  // Keys that query sees, before the key mask: [0, keys_for).
  int64_t keys_for(int64_t query) const {
    return s.causal ? std::clamp<int64_t>(query + 1 + s.Tk - s.Tq, 0, s.Tk) : s.Tk;
  }
  int64_t seen(int64_t query, int64_t k0) const {
    return std::clamp<int64_t>(keys_for(query) - k0, 0, kBlock);
  }
  // The first of the queries q0 + [0, kBlock) that sees the key.
  int64_t first_to_see(int64_t key, int64_t q0) const {
    return s.causal ? std::clamp<int64_t>(key - (s.Tk - s.Tq) - q0, 0, kBlock) : 0;
  }
  // Packed rows (n, D) times the scale, so that no score needs it.
  void pack_queries(const HeadView<const T>& q, int64_t n, T* to) const {
    pack_rows(q, b, h, n, s.D, to);
    const T scale = static_cast<T>(s.scale);
#pragma omp simd
    for (int64_t i = 0; i < n * s.D; ++i) to[i] *= scale;
  }
  // x[j] += bias + ALiBi, -inf where key k0 + j is beyond what the query sees or a mask hides it
  void score(T* x, int64_t query, int64_t k0, int64_t width) const {
    const int64_t n = std::min(seen(query, k0), width);
    if (n < width) std::fill(x + n, x + width, -std::numeric_limits<T>::infinity());
    if (bias || s.alibi_slopes || s.groups) add_extras(x, query, k0, n);
    if (!s.key_mask) return;
    const int32_t* mask = s.key_mask + b * s.Tk + k0;
    for (int64_t j = 0; j < n; ++j)
      if (mask[j] == 0) x[j] = -std::numeric_limits<T>::infinity();
  }
  // Apart, so that attention without any of them keeps its code small.
  __attribute__((noinline)) void add_extras(T* x, int64_t query, int64_t k0, int64_t n) const {
    if (bias) {
      const T* row = bias + (h * s.Tq + query) * s.Tk + k0;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) x[j] += row[j];
    }
    if (s.alibi_slopes) {
      const T slope = static_cast<T>(s.alibi_slopes[h]);
      const T first = static_cast<T>(k0 - (query + s.Tk - s.Tq));
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) x[j] += slope * (first + static_cast<T>(j));
    }
    if (s.groups) {
      const int32_t* group = s.groups + (b % s.windows) * s.Tk;
      const int32_t own = group[query];
#pragma omp simd
      for (int64_t j = 0; j < n; ++j)
        x[j] = group[k0 + j] == own ? x[j] : -std::numeric_limits<T>::infinity();
    }
  }
  // keep[j] = 1/(1-p) or 0 for the probabilities of one row against keys k0 + [0, n)
  void dropout_factors(int64_t query, int64_t k0, int64_t n, T* keep) const {
    uint32_t words[kBlock];
    const int64_t first = row_index(query) * ((s.Tk + 3) / 4) + k0 / 4;
    philox_words(s.dropout_key, s.dropout_block + static_cast<uint64_t>(first), (n + 3) / 4, words);
    const uint32_t least = keep_threshold(s.dropout);
    const T scale = static_cast<T>(1 / (1 - s.dropout));
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) keep[j] = (words[j] >> 8) >= least ? scale : T(0);
  }
};

// f(i, workspace) for i in [0, tasks) in parallel; one workspace per thread, made before any task
// runs.
template <class T, class F>
void for_tasks(int64_t tasks, int64_t elements, const F& f) {
  const int team = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), tasks));
  if (team == 0) return;
  elements = (elements + 15) / 16 * 16;
  const Storage room(static_cast<size_t>(elements) * sizeof(T) * static_cast<size_t>(team),
                     Device::cpu);
  T* workspace = static_cast<T*>(room.data);
#pragma omp parallel for schedule(dynamic) num_threads(team)
  for (int64_t i = 0; i < tasks; ++i) f(i, workspace + omp_get_thread_num() * elements);
}

}  // namespace cbwc::cpu
