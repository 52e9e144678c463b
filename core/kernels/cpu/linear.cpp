#include "core/kernels/linear.h"

#include <algorithm>

#include "core/kernels/cpu/rows.h"
#include "core/parallel.h"

namespace cbwc::cpu {

template <class T>
void fill_rows(T* y, const T* bias, int64_t rows, int64_t cols) {
  parallel_for(rows, std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(cols, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r)
                   std::copy(bias, bias + cols, y + row_offset(r, cols));
               });
}

template <class T>
void column_sums(const T* dy, T* db, bool accumulate, int64_t rows, int64_t cols) {
  constexpr int64_t kBlock = 128;  // columns of one task; each is summed from row 0 on
  parallel_for(cols, kBlock, [&](int64_t begin, int64_t end) {
    T sum[kBlock] = {};
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = dy + row_offset(r, cols) + begin;
#pragma omp simd
      for (int64_t i = 0; i < end - begin; ++i) sum[i] += row[i];
    }
    for (int64_t i = 0; i < end - begin; ++i)
      db[begin + i] = accumulate ? db[begin + i] + sum[i] : sum[i];
  });
}

template void fill_rows<float>(float*, const float*, int64_t, int64_t);
template void fill_rows<double>(double*, const double*, int64_t, int64_t);
template void column_sums<float>(const float*, float*, bool, int64_t, int64_t);
template void column_sums<double>(const double*, double*, bool, int64_t, int64_t);

}  // namespace cbwc::cpu
