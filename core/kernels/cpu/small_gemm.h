// C (m, n) = or += A (m, k) B (k, n) for blocks that fit in the cache, for use inside an OpenMP
// task, where OpenBLAS must not be called (cases.md P67 c). A has any strides; B's and C's rows are
// contiguous.
#pragma once
#include <cstdint>
#include <cstring>

namespace cbwc::cpu {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kTileRows = 8;  // 16 of 32 registers accumulate
#elif defined(__AVX__)
constexpr int kVectorBytes = 32, kTileRows = 4;  // 8 of 16
#else
constexpr int kVectorBytes = 16, kTileRows = 4;
#endif

template <class T>
struct Vector {
  typedef T type __attribute__((vector_size(kVectorBytes)));
  static constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
};

template <class T>
struct GemmBlock {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t ldb;
  T* c;
  int64_t ldc;
  bool add;
};

// R rows by V vectors of C at (i, j), kept in registers over k.
template <class T, int R, int V>
inline void gemm_tile(const GemmBlock<T>& g, int64_t i, int64_t j) {
  using Vec = typename Vector<T>::type;
  constexpr int kLanes = Vector<T>::kLanes;
  Vec acc[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) acc[r][v] = Vec{};
  const T *a = g.a + i * g.a_row, *b = g.b + j;
  for (int64_t l = 0; l < g.k; ++l) {
    Vec row[V];
    // One by one: copied as one, they would go through memory in halves, which stalls each step.
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) std::memcpy(&row[v], b + l * g.ldb + v * kLanes, sizeof(Vec));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) acc[r][v] += a[r * g.a_row + l * g.a_col] * row[v];
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      T* c = g.c + (i + r) * g.ldc + j + v * kLanes;
      Vec old{};
      if (g.add) std::memcpy(&old, c, sizeof(old));
      old += acc[r][v];
      std::memcpy(c, &old, sizeof(old));
    }
}

// The last columns, fewer than a vector.
template <class T, int R>
inline void gemm_tail(const GemmBlock<T>& g, int64_t i, int64_t j) {
  for (int r = 0; r < R; ++r) {
    T acc[Vector<T>::kLanes] = {};
    const int64_t n = g.n - j;
    for (int64_t l = 0; l < g.k; ++l) {
      const T a = g.a[(i + r) * g.a_row + l * g.a_col];
      const T* b = g.b + l * g.ldb + j;
      for (int64_t x = 0; x < n; ++x) acc[x] += a * b[x];
    }
    T* c = g.c + (i + r) * g.ldc + j;
    for (int64_t x = 0; x < n; ++x) c[x] = (g.add ? c[x] : T(0)) + acc[x];
  }
}

template <class T, int R>
inline void gemm_rows(const GemmBlock<T>& g, int64_t i, int64_t j, int vectors) {
  if (vectors == 2)
    gemm_tile<T, R, 2>(g, i, j);
  else if (vectors == 1)
    gemm_tile<T, R, 1>(g, i, j);
  else
    gemm_tail<T, R>(g, i, j);
}

template <class T>
void small_gemm(const GemmBlock<T>& g) {
  constexpr int64_t kLanes = Vector<T>::kLanes;
  for (int64_t j = 0; j < g.n;) {
    const int vectors = g.n - j >= 2 * kLanes ? 2 : (g.n - j >= kLanes ? 1 : 0);
    int64_t i = 0;
    for (; i + kTileRows <= g.m; i += kTileRows) gemm_rows<T, kTileRows>(g, i, j, vectors);
    for (; i + 2 <= g.m; i += 2) gemm_rows<T, 2>(g, i, j, vectors);
    if (i < g.m) gemm_rows<T, 1>(g, i, j, vectors);
    j += vectors == 0 ? g.n - j : vectors * kLanes;
  }
}

}  // namespace cbwc::cpu
