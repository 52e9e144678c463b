#include "core/kernels/embedding.h"

#include <algorithm>
#include <vector>

#include "core/kernels/cpu/rows.h"
#include "core/parallel.h"

namespace cbwc::cpu {
namespace {
template <class T>
T row_mean(const T* x, int64_t cols) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < cols; ++j) sum += static_cast<double>(x[j]);
  return static_cast<T>(sum / static_cast<double>(cols));
}
}  // namespace

// y[r] = table[ids[r]] - [centered] mean(table[ids[r]])
template <class T, class I>
void embedding_forward(const EmbeddingForward<T, I>& a) {
  parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* row = a.table + row_offset(a.ids[r], a.cols);
      T* y = a.y + row_offset(r, a.cols);
      const T mean = a.centered ? row_mean(row, a.cols) : T(0);
#pragma omp simd
      for (int64_t j = 0; j < a.cols; ++j) y[j] = row[j] - mean;
    }
  });
}

// dtable[ids[r]] += dy[r] - [centered] mean(dy[r]). Each thread owns columns and walks the ids in
// order, so that a repeated id needs no lock and sums in one order.
template <class T, class I>
void embedding_backward(const EmbeddingBackward<T, I>& a) {
  if (!a.accumulate)
    parallel_for(a.vocab * a.cols, int64_t{1} << 18, [&](int64_t begin, int64_t end) {
      std::fill(a.dtable + begin, a.dtable + end, T(0));
    });
  std::vector<T> means(static_cast<size_t>(a.rows), T(0));
  if (a.centered)
    parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        means[static_cast<size_t>(r)] = row_mean(a.dy + row_offset(r, a.cols), a.cols);
    });
  constexpr int64_t kColumns = 64;
  parallel_for(a.cols, kColumns, [&](int64_t begin, int64_t end) {
    for (int64_t r = 0; r < a.rows; ++r) {
      T* to = a.dtable + row_offset(a.ids[r], a.cols);
      const T* dy = a.dy + row_offset(r, a.cols);
      const T mean = means[static_cast<size_t>(r)];
#pragma omp simd
      for (int64_t j = begin; j < end; ++j) to[j] += dy[j] - mean;
    }
  });
}

#define CBWC_INSTANTIATE(T, I)                                    \
  template void embedding_forward(const EmbeddingForward<T, I>&); \
  template void embedding_backward(const EmbeddingBackward<T, I>&);
CBWC_INSTANTIATE(float, int32_t)
CBWC_INSTANTIATE(float, int64_t)
CBWC_INSTANTIATE(double, int32_t)
CBWC_INSTANTIATE(double, int64_t)
#undef CBWC_INSTANTIATE

}  // namespace cbwc::cpu
