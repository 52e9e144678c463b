#include "core/kernels/gather_rows.h"

#include <algorithm>
#include <vector>

#include "core/kernels/cpu/rows.h"
#include "core/parallel.h"

namespace cbwc::cpu {

// y[b, n] = x[b, ids[n]], or zeros
template <class T>
void gather_rows_forward(const GatherRows<T>& a) {
  parallel_for(a.B * a.N, row_grain(a.C), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t id = a.ids[i % a.N];
      T* y = a.y + row_offset(i, a.C);
      if (id < 0) {
        std::fill(y, y + a.C, T(0));
        continue;
      }
      const T* x = a.x + row_offset(i / a.N * a.R + id, a.C);
      std::copy(x, x + a.C, y);
    }
  });
}

// dx[b, r] += dy[b, n] for every n with ids[n] = r, in order. The places of each r are listed
// first, so that a task owns whole rows and no row needs a lock.
template <class T>
void gather_rows_backward(const GatherRowsBackward<T>& a) {
  std::vector<int64_t> first(static_cast<size_t>(a.R) + 1, 0);
  for (int64_t n = 0; n < a.N; ++n)
    if (a.ids[n] >= 0) ++first[static_cast<size_t>(a.ids[n]) + 1];
  for (size_t r = 1; r < first.size(); ++r) first[r] += first[r - 1];
  std::vector<int64_t> places(static_cast<size_t>(first.back())), next(first);
  for (int64_t n = 0; n < a.N; ++n)
    if (a.ids[n] >= 0) places[static_cast<size_t>(next[static_cast<size_t>(a.ids[n])]++)] = n;

  parallel_for(a.B * a.R, row_grain(a.C), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / a.R;
      const size_t r = static_cast<size_t>(i % a.R);
      T* dx = a.dx + row_offset(i, a.C);
      bool fresh = !a.accumulate;
      for (int64_t k = first[r]; k < first[r + 1]; ++k, fresh = false) {
        const T* dy = a.dy + row_offset(b * a.N + places[static_cast<size_t>(k)], a.C);
        if (fresh) {
          std::copy(dy, dy + a.C, dx);
          continue;
        }
#pragma omp simd
        for (int64_t j = 0; j < a.C; ++j) dx[j] += dy[j];
      }
      if (fresh) std::fill(dx, dx + a.C, T(0));
    }
  });
}

template void gather_rows_forward(const GatherRows<float>&);
template void gather_rows_forward(const GatherRows<double>&);
template void gather_rows_backward(const GatherRowsBackward<float>&);
template void gather_rows_backward(const GatherRowsBackward<double>&);

}  // namespace cbwc::cpu
