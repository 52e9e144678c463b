// C (m, n) = A (m, k) B^T (+ C) for a few rows m and B (n, k), as decoding token by token has it: B
// is read once, and packing it first, as OpenBLAS does, would cost more than the product. A row's
// result does not depend on the other rows, nor on the threads.
#pragma once
#include <cstdint>

namespace cbwc::cpu {

constexpr int64_t kThinRows = 8;  // m at most

template <class T>
struct ThinGemm {
  int64_t m, n, k;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  T* c;
  int64_t ldc;
  bool add;  // to C instead of writing it
};

template <class T>
void thin_gemm(const ThinGemm<T>& g);

}  // namespace cbwc::cpu
