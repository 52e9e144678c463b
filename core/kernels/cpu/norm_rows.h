// What the CPU kernels of LayerNorm and RMSNorm share: vectors, how rows are cut into groups and
// tasks, and the two-stage sum of dgamma and dbeta, whose order depends on the shape only, never on
// the thread count.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/kernels/cpu/streaming.h"
#include "core/parallel.h"
#include "core/tensor.h"

namespace cbwc::cpu {

// The widest vector the compiler has: 64 bytes with AVX-512, 32 with AVX, else 16.
constexpr int64_t kVectorBytes = __BIGGEST_ALIGNMENT__;
template <class T>
using Vector [[gnu::vector_size(kVectorBytes)]] = T;
template <class T>
constexpr int64_t kLanes = kVectorBytes / sizeof(T);

// How much of a vector a row still has: all of it, or `int64_t` elements; the rest reads as 0.
struct Whole {};
template <class T>
inline Vector<T> load(const T* p, Whole = {}) {
  Vector<T> v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
template <class T>
inline Vector<T> load(const T* p, int64_t count) {
  Vector<T> v = {};
  std::memcpy(&v, p, static_cast<size_t>(count) * sizeof(T));
  return v;
}
template <class T>
inline void store(T* p, Vector<T> v, Whole = {}) {
  std::memcpy(p, &v, sizeof(v));
}
template <class T>
inline void store(T* p, Vector<T> v, int64_t count) {
  std::memcpy(p, &v, static_cast<size_t>(count) * sizeof(T));
}

// f(k) for k = 0 .. N - 1, each a constant: so that arrays of accumulators become registers. A loop
// over k is unrolled too late for that, and every addition would go through memory.
template <int N, class F>
[[gnu::always_inline]] inline void unrolled(const F& f) {
  [&]<int... K>(std::integer_sequence<int, K...>) { (f(std::integral_constant<int, K>()), ...); }
  (std::make_integer_sequence<int, N>());
}

// f(i, u, count) for the vectors of a row of n elements: i is the first element, count what load
// and store take, and u the accumulator to add to: one of kChains, so that an addition need not
// wait for the one before.
constexpr int kChains = 2;
template <class T, class F>
[[gnu::always_inline]] inline void for_vectors(int64_t n, const F& f) {
  constexpr int64_t L = kLanes<T>;
  constexpr std::integral_constant<int, 0> first;
  int64_t i = 0;
  for (; i + kChains * L <= n; i += kChains * L)
    unrolled<kChains>([&](auto u) { f(i + u * L, u, Whole{}); });
  for (; i + L <= n; i += L) f(i, first, Whole{});
  if (i < n) f(i, first, n - i);
}

// Takes a and b, one after the other, as blocks of kBlock lanes; adds the two halves of each.
template <int64_t kBlock, class T, size_t... I>
inline Vector<T> add_halves(Vector<T> a, Vector<T> b, std::index_sequence<I...>) {
  constexpr size_t h = kBlock / 2;
  return __builtin_shufflevector(a, b, (I / h * kBlock + I % h)...) +
         __builtin_shufflevector(a, b, (I / h * kBlock + I % h + h)...);
}

// sums[k] = the lanes of v[k] added up, for N (a power of two) vectors by the same instructions.
// Each sum is a tree, the same for every N. v is used up.
template <int N, class T, int64_t kBlock = kLanes<T>>
inline void add_lanes(Vector<T>* v, T* sums, int n = N) {
  if constexpr (kBlock == 1) {
    std::memcpy(sums, v, static_cast<size_t>(n) * sizeof(T));
  } else {
    constexpr int half = N > 1 ? N / 2 : 1;
    unrolled<half>([&](auto k) {
      v[k] = add_halves<kBlock, T>(v[N > 1 ? 2 * k : 0], v[N > 1 ? 2 * k + 1 : 0],
                                   std::make_index_sequence<kLanes<T>>());
    });
    add_lanes<half, T, kBlock / 2>(v, sums, n);
  }
}
// The same for rows of kChains accumulators: v[u * R + k] belongs to sums[k].
template <int R, class T>
inline void add_chains(Vector<T>* v, T* sums) {
  static_assert(kChains == 2);
  unrolled<R>([&](auto k) { v[k] += v[R + k]; });
  add_lanes<R, T>(v, sums);
}

// Rows are taken up to kMostRows at a time, so that the long waits of one (sums, root, division)
// pass while others compute, and gamma, beta and the partial sums are read once for all. A row's
// bits do not depend on the rows that it is taken with.
constexpr int kMostRows = 4;
template <int R>
using Rows = std::integral_constant<int, R>;

// f(Rows<R>(), r, to) for the rows begin .. end; it writes rows r .. r + R at `to`. Rows that fit
// go to a small buffer, and from there to `out` (null: nothing is written) in one go.
template <int R, class T, class F>
void for_row_groups(int64_t begin, int64_t end, int64_t cols, T* out, bool streamed, int64_t step,
                    const F& f) {
  constexpr int64_t kBuffer = (1 << 14) / sizeof(T);
  alignas(64) T buffer[kBuffer];
  const bool direct = out == nullptr || step * cols > kBuffer;
  for (int64_t first = begin; first < end; first += step) {
    const int64_t last = std::min(first + step, end), count = (last - first) * cols;
    T* const to = out == nullptr ? nullptr : direct ? out + first * cols : buffer;
    const auto row = [&](int64_t r) { return to == nullptr ? to : to + (r - first) * cols; };
    int64_t r = first;
    for (; r + R <= last; r += R) f(Rows<R>(), r, row(r));
    for (; r < last; ++r) f(Rows<1>(), r, row(r));
    if (direct) continue;
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    if (streamed)
      stream(out + first * cols, buffer, bytes);
    else
      std::memcpy(out + first * cols, buffer, static_cast<size_t>(bytes));
  }
  if (streamed) stream_end();
}
// What a group of rows may take of the first cache (32 to 48 KiB) in each array. Backward has four
// arrays, the next rows of two and the partial sums in it: a third of forward's, so that rows of
// 3 KiB are taken singly (on a Xeon 0.8 to 0.9 of the time that two at once take).
constexpr int64_t kForwardBytes = 12 << 10, kBackwardBytes = 4 << 10;
// The same, with as many rows at a time as fit kBytes. Rows too wide for it are taken kMostRows at
// a time again: they go through the second cache anyway.
template <int64_t kBytes, class T, class F>
void for_row_groups(int64_t begin, int64_t end, int64_t cols, T* out, bool streamed, const F& f) {
  const int64_t fit = kBytes / static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(cols, 1);
  const int64_t step = std::max<int64_t>(fit / kMostRows, 1) * kMostRows;
  if (fit == 1) return for_row_groups<1>(begin, end, cols, out, streamed, 1, f);
  if (fit > 1 && fit < kMostRows) return for_row_groups<2>(begin, end, cols, out, streamed, 2, f);
  for_row_groups<kMostRows>(begin, end, cols, out, streamed, step, f);
}

// The R rows after the R rows at x, which are row r and on, for the kernels to prefetch: the
// processor's own guess would end with every row. Rows too wide to be kept until then, or not
// there, are not worth it: x again, which costs nothing.
template <int R, class T>
inline const T* next_rows(const T* x, int64_t r, int64_t rows, int64_t cols) {
  constexpr int64_t kKept = (1 << 14) / sizeof(T);
  return r + 2 * R <= rows && R * cols <= kKept ? x + R * cols : x;
}

inline int64_t norm_rows_per_task(int64_t cols) {
  const int64_t rows = (1 << 14) / std::max<int64_t>(cols, 1);
  return std::max<int64_t>(rows / kMostRows, 1) * kMostRows;
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

// rows_of(Rows<R>(), first, to, gamma_part, beta_part) writes R rows of dx at `to` and adds their
// terms to its task's partial sums; the parts are then added in task order.
template <class T, class F>
void reduce_norm_rows(int64_t rows, int64_t cols, T* dx, ColumnSum<T> gamma, ColumnSum<T> beta,
                      const F& rows_of) {
  constexpr int64_t kTasks = 64, kFewest = 16;
  int64_t per_task = std::max((rows + kTasks - 1) / kTasks, kFewest);
  per_task = (per_task + kMostRows - 1) / kMostRows * kMostRows;
  const int64_t tasks = (rows + per_task - 1) / per_task;
  Tensor parts = Tensor::empty({tasks, 2, cols}, dtype_of<T>());
  T* part = parts.data<T>();
  const bool streamed = is_streamed(dx, rows, cols * static_cast<int64_t>(sizeof(T)));
  parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      T* pg = part + 2 * t * cols;
      std::fill(pg, pg + 2 * cols, T(0));
      for_row_groups<kBackwardBytes>(
          t * per_task, std::min((t + 1) * per_task, rows), cols, dx, streamed,
          [&](auto count, int64_t r, T* to) { rows_of(count, r, to, pg, pg + cols); });
    }
  });
  const int64_t columns_per_task = std::max<int64_t>(128, (1 << 13) / std::max<int64_t>(tasks, 1));
  parallel_for(cols, columns_per_task, [&](int64_t begin, int64_t end) {
    for (const auto& [out, which] : {std::pair(gamma, 0), std::pair(beta, 1)}) {
      T* const sum = out.sum;
      if (sum == nullptr) continue;
      if (!out.accumulate) std::fill(sum + begin, sum + end, T(0));
      for (int64_t t = 0; t < tasks; ++t) {
        const T* p = part + (2 * t + which) * cols;
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) sum[i] += p[i];
      }
    }
  });
}

}  // namespace cbwc::cpu
