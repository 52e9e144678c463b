#include "core/kernels/cpu/thin_gemm.h"

#include <algorithm>

#include "core/kernels/cpu/small_gemm.h"
#include "core/parallel.h"

namespace cbwc::cpu {
namespace {

// Rows of B that are read beside each other: enough sums in flight to hide an addition's latency,
// few enough to stay in registers.
constexpr int tile_width(int rows) { return rows <= 2 ? 8 : (rows <= 4 ? 4 : 3); }

// By halves, which takes a tenth of the time of lane after lane.
template <class T, int Bytes>
inline T sum_lanes(const void* lanes) {
  typedef T Half __attribute__((vector_size(Bytes / 2)));
  Half low, high;
  std::memcpy(&low, lanes, sizeof(Half));
  std::memcpy(&high, static_cast<const char*>(lanes) + sizeof(Half), sizeof(Half));
  low += high;
  if constexpr (sizeof(Half) > sizeof(T)) {
    return sum_lanes<T, Bytes / 2>(&low);
  } else {
    return low[0];
  }
}

// C (R, W) at column j. Every sum runs over k in the same order, whatever R and W.
template <class T, int R, int W>
inline void dot_tile(const ThinGemm<T>& g, int64_t j) {
  using Vec = typename Vector<T>::type;
  constexpr int kLanes = Vector<T>::kLanes;
  Vec acc[R][W];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int w = 0; w < W; ++w) acc[r][w] = Vec{};
  const T* b = g.b + j * g.ldb;
  int64_t l = 0;
  for (; l + kLanes <= g.k; l += kLanes) {
    Vec weights[W];
#pragma GCC unroll 8
    for (int w = 0; w < W; ++w) {
      std::memcpy(&weights[w], b + w * g.ldb + l, sizeof(Vec));
      __builtin_prefetch(b + (W + w) * g.ldb + l, 0, 2);  // the next tile's, into the second cache
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      Vec x;
      std::memcpy(&x, g.a + r * g.lda + l, sizeof(Vec));
#pragma GCC unroll 8
      for (int w = 0; w < W; ++w) acc[r][w] += x * weights[w];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int w = 0; w < W; ++w) {
      T sum = sum_lanes<T, kVectorBytes>(&acc[r][w]);
      for (int64_t i = l; i < g.k; ++i) sum += g.a[r * g.lda + i] * b[w * g.ldb + i];
      T* c = g.c + r * g.ldc + j + w;
      *c = g.add ? *c + sum : sum;
    }
  }
}

template <class T, int R>
void columns(const ThinGemm<T>& g, int64_t begin, int64_t end) {
  constexpr int kWidth = tile_width(R);
  int64_t j = begin;
  for (; j + kWidth <= end; j += kWidth) dot_tile<T, R, kWidth>(g, j);
  for (; j < end; ++j) dot_tile<T, R, 1>(g, j);
}

}  // namespace

template <class T>
void thin_gemm(const ThinGemm<T>& g) {
  using Columns = void (*)(const ThinGemm<T>&, int64_t, int64_t);
  constexpr Columns kColumns[kThinRows] = {columns<T, 1>, columns<T, 2>, columns<T, 3>,
                                           columns<T, 4>, columns<T, 5>, columns<T, 6>,
                                           columns<T, 7>, columns<T, 8>};
  constexpr int64_t kChunk = 32768;  // so many elements of B are worth waking a thread
  constexpr int64_t kStep = 24;      // a multiple of every tile_width
  const int64_t grain = std::max(kStep, kChunk / std::max<int64_t>(g.k, 1) / kStep * kStep);
  const Columns run = kColumns[g.m - 1];
  parallel_for(g.n, grain, [&](int64_t begin, int64_t end) { run(g, begin, end); });
}

template void thin_gemm(const ThinGemm<float>&);
template void thin_gemm(const ThinGemm<double>&);

}  // namespace cbwc::cpu
