// What the CPU kernels of LayerNorm and RMSNorm share: vectors, how rows are cut into tasks, and
// the two-stage sum of dgamma and dbeta, whose order depends on the shape only, never on the thread
// count.
#pragma once
#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "core/tensor.h"

namespace cbwc::cpu {

// 64 bytes of T; g++ maps it onto whatever vectors the CPU has.
template <class T>
using Vector [[gnu::vector_size(64)]] = T;
template <class T>
constexpr int64_t kLanes = 64 / sizeof(T);

template <class T>
inline Vector<T> load(const T* p) {
  Vector<T> v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
template <class T>
inline void store(T* p, Vector<T> v) {
  std::memcpy(p, &v, sizeof(v));
}
// As a tree: shorter than a chain of dependent additions, which narrow rows would wait for.
template <class T>
inline T add_lanes(Vector<T> v) {
  T p[kLanes<T>];
  store<T>(p, v);
  for (int64_t w = kLanes<T> / 2; w > 0; w /= 2)
    for (int64_t i = 0; i < w; ++i) p[i] += p[i + w];
  return p[0];
}

inline int64_t norm_rows_per_task(int64_t cols) {
  return std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(cols, 1));
}

// The given gain or bias, or a constant one in its place, so that the kernels know one case only.
template <class T>
class OrConstant {
 public:
  OrConstant(const T* given, int64_t cols, double value) : data(given) {
    if (given != nullptr) return;
    constant_ = Tensor::full({cols}, value, dtype_of<T>());
    data = constant_.data<T>();
  }
  const T* data;

 private:
  Tensor constant_;
};

template <class T>
struct ColumnSum {
  T* sum;           // (cols), or null: not wanted
  bool accumulate;  // add to it
};

// rows_of(first, count, gamma_part, beta_part) handles 1 or kRowGroup rows and adds their terms
// into its task's partial sums; the parts are then added in task order.
constexpr int64_t kRowGroup = 4;

template <class T, class F>
void reduce_norm_rows(int64_t rows, int64_t cols, ColumnSum<T> gamma, ColumnSum<T> beta,
                      const F& rows_of) {
  constexpr int64_t kTasks = 64, kFewest = 16;
  const int64_t per_task = std::max((rows + kTasks - 1) / kTasks, kFewest);
  const int64_t tasks = (rows + per_task - 1) / per_task;
  Tensor parts = Tensor::empty({tasks, 2, cols}, dtype_of<T>());
  T* part = parts.data<T>();
  parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      T* pg = part + 2 * t * cols;
      std::fill(pg, pg + 2 * cols, T(0));
      const int64_t last = std::min((t + 1) * per_task, rows);
      int64_t r = t * per_task;
      for (; r + kRowGroup <= last; r += kRowGroup) rows_of(r, kRowGroup, pg, pg + cols);
      for (; r < last; ++r) rows_of(r, 1, pg, pg + cols);
    }
  });
  for (int which = 0; which < 2; ++which) {
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
