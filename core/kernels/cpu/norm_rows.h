// What the CPU kernels of LayerNorm and RMSNorm share: how rows are cut into tasks, and the
// two-stage sum of dgamma and dbeta, whose order depends on the shape only, never on the thread
// count.
#pragma once
#include <algorithm>

#include "core/parallel.h"
#include "core/tensor.h"

namespace cbwc::cpu {

inline int64_t norm_rows_per_task(int64_t cols) {
  return std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(cols, 1));
}

template <class T>
struct ColumnSum {
  T* sum;           // (cols), or null: not wanted
  bool accumulate;  // add to it
};

// row(r, gamma_part, beta_part) handles one row and adds its terms into its task's partial sums
// (null where not wanted); the parts are then added in task order.
template <class T, class F>
void reduce_norm_rows(int64_t rows, int64_t cols, ColumnSum<T> gamma, ColumnSum<T> beta,
                      const F& row) {
  constexpr int64_t kTasks = 64, kFewest = 16;
  const int64_t per_task = std::max((rows + kTasks - 1) / kTasks, kFewest);
  const int64_t tasks = (rows + per_task - 1) / per_task;
  const bool wanted = gamma.sum != nullptr || beta.sum != nullptr;
  Tensor parts;
  T* part = nullptr;
  if (wanted) {
    parts = Tensor::empty({tasks, 2, cols}, dtype_of<T>());
    part = parts.data<T>();
  }
  parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      T* pg = gamma.sum != nullptr ? part + 2 * t * cols : nullptr;
      T* pb = beta.sum != nullptr ? part + (2 * t + 1) * cols : nullptr;
      if (pg != nullptr) std::fill(pg, pg + cols, T(0));
      if (pb != nullptr) std::fill(pb, pb + cols, T(0));
      for (int64_t r = t * per_task; r < std::min((t + 1) * per_task, rows); ++r) row(r, pg, pb);
    }
  });
  for (int which = 0; which < 2 && wanted; ++which) {
    const ColumnSum<T> out = which == 0 ? gamma : beta;
    if (out.sum == nullptr) continue;
    if (!out.accumulate) std::fill(out.sum, out.sum + cols, T(0));
    for (int64_t t = 0; t < tasks; ++t) {
      const T* p = part + (2 * t + which) * cols;
#pragma omp simd
      for (int64_t i = 0; i < cols; ++i) out.sum[i] += p[i];
    }
  }
}

}  // namespace cbwc::cpu
