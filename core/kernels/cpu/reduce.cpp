#include "core/kernels/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/parallel.h"

namespace cbwc::cpu {
namespace {

constexpr int64_t kChunk = 16384;  // elements of a long row per partial sum
constexpr int64_t kColumns = 64;   // columns summed together when the reduced axis is not the last
constexpr int kLanes = 16;

// Each kind is a fold in double: where it starts, how an element joins, how two partial results
// join, and what the result is made of.
struct SumFold {
  static constexpr double start = 0.0;
  static double join(double state, double x) { return state + x; }
  static double merge(double a, double b) { return a + b; }
};
struct MaxFold {  // a NaN stays: nothing compares greater than it
  static constexpr double start = -std::numeric_limits<double>::infinity();
  static double join(double state, double x) { return x > state || std::isnan(x) ? x : state; }
  static double merge(double a, double b) { return std::isnan(a) ? a : join(a, b); }
};
struct SquareFold {
  static constexpr double start = 0.0;
  static double join(double state, double x) { return state + x * x; }
  static double merge(double a, double b) { return a + b; }
};

template <class Fold, class T>
double fold_row(const T* x, int64_t n) {
  double lanes[kLanes];
  for (double& lane : lanes) lane = Fold::start;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) lanes[l] = Fold::join(lanes[l], static_cast<double>(x[i + l]));
  }
  for (int l = 0; i < n; ++i, ++l) lanes[l] = Fold::join(lanes[l], static_cast<double>(x[i]));
  double total = lanes[0];
  for (int l = 1; l < kLanes; ++l) total = Fold::merge(total, lanes[l]);
  return total;
}

template <class T>
T finish(ReduceKind kind, double state, int64_t n) {
  if (kind == ReduceKind::mean) state /= static_cast<double>(n);
  if (kind == ReduceKind::norm) state = std::sqrt(state);
  return static_cast<T>(state);
}

// The reduced axis is the last: rows are cut into chunks, partial results are joined in order.
template <class Fold, class T>
void reduce_rows(const ReduceForward<T>& a) {
  const int64_t chunks = a.n <= kChunk ? 1 : (a.n + kChunk - 1) / kChunk;
  std::vector<double> partial(static_cast<size_t>(a.outer * chunks));
  const int64_t grain = chunks > 1 ? 1 : kChunk / (a.n > 0 ? a.n : 1);
  parallel_for(a.outer * chunks, grain < 1 ? 1 : grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t from = (i % chunks) * kChunk;
      const int64_t length = chunks == 1 ? a.n : std::min(kChunk, a.n - from);
      partial[i] = fold_row<Fold>(a.x + (i / chunks) * a.n + from, length);
    }
  });
  for (int64_t o = 0; o < a.outer; ++o) {
    double total = partial[o * chunks];
    for (int64_t c = 1; c < chunks; ++c) total = Fold::merge(total, partial[o * chunks + c]);
    a.y[o] = finish<T>(a.kind, total, a.n);
  }
}

template <class Fold, class T>
void reduce_columns(const ReduceForward<T>& a) {
  const int64_t blocks = (a.inner + kColumns - 1) / kColumns;
  parallel_for(a.outer * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t o = i / blocks, from = (i % blocks) * kColumns;
      const int64_t columns = std::min(kColumns, a.inner - from);
      double state[kColumns];
      for (int64_t c = 0; c < columns; ++c) state[c] = Fold::start;
      for (int64_t r = 0; r < a.n; ++r) {
        const T* x = a.x + (o * a.n + r) * a.inner + from;
        for (int64_t c = 0; c < columns; ++c) {
          state[c] = Fold::join(state[c], static_cast<double>(x[c]));
        }
      }
      T* y = a.y + o * a.inner + from;
      for (int64_t c = 0; c < columns; ++c) y[c] = finish<T>(a.kind, state[c], a.n);
    }
  });
}

template <class Fold, class T>
void reduce(const ReduceForward<T>& a) {
  if (a.outer == 0 || a.inner == 0) return;
  a.inner == 1 ? reduce_rows<Fold>(a) : reduce_columns<Fold>(a);
}

// sum and mean: every row of dx is dy times one factor.
template <class T>
void spread(const ReduceBackward<T>& a) {
  const T share =
      a.kind == ReduceKind::mean ? static_cast<T>(1.0 / static_cast<double>(a.n)) : T{1};
  if (a.inner == 1) {
    parallel_for(a.outer, std::max<int64_t>(1, kChunk / a.n), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) std::fill_n(a.dx + o * a.n, a.n, share * a.dy[o]);
    });
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kChunk / a.inner);
  parallel_for(a.outer * a.n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* dy = a.dy + (r / a.n) * a.inner;
      T* dx = a.dx + r * a.inner;
      for (int64_t i = 0; i < a.inner; ++i) dx[i] = share * dy[i];
    }
  });
}

// max and norm: dx of one (outer, inner) element along the reduced axis.
template <class T>
void backward_one(const ReduceBackward<T>& a, int64_t o, int64_t i) {
  const double dy = static_cast<double>(a.dy[o * a.inner + i]);
  const T y = a.y[o * a.inner + i];
  T* dx = a.dx + o * a.n * a.inner + i;
  const T* x = a.x + o * a.n * a.inner + i;
  if (a.kind == ReduceKind::max) {
    const auto is_max = [y](T value) { return value == y || (std::isnan(value) && std::isnan(y)); };
    int64_t ties = 0;
    for (int64_t r = 0; r < a.n; ++r) ties += is_max(x[r * a.inner]);
    const T share = static_cast<T>(dy / static_cast<double>(ties));
    for (int64_t r = 0; r < a.n; ++r) dx[r * a.inner] = is_max(x[r * a.inner]) ? share : T{0};
    return;
  }
  const double slope = y == T{0} ? 0.0 : dy / static_cast<double>(y);
  for (int64_t r = 0; r < a.n; ++r) {
    const double value = static_cast<double>(x[r * a.inner]);
    dx[r * a.inner] = y == T{0} ? T{0} : static_cast<T>(slope * value);
  }
}

}  // namespace

// sum: y = sum x; mean: y = sum x / n; max: y = max x; norm: y = sqrt(sum x^2)
template <class T>
void reduce_forward(const ReduceForward<T>& a) {
  switch (a.kind) {
    case ReduceKind::sum:
    case ReduceKind::mean:
      return reduce<SumFold>(a);
    case ReduceKind::max:
      return reduce<MaxFold>(a);
    case ReduceKind::norm:
      return reduce<SquareFold>(a);
  }
}

// sum: dx = dy; mean: dx = dy / n; max: dx = dy / ties where x = y; norm: dx = dy x / y, 0 at y = 0
template <class T>
void reduce_backward(const ReduceBackward<T>& a) {
  if (a.outer * a.n * a.inner == 0) return;
  if (a.kind == ReduceKind::sum || a.kind == ReduceKind::mean) return spread(a);
  const int64_t grain = std::max<int64_t>(1, kChunk / a.n);
  parallel_for(a.outer * a.inner, grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) backward_one(a, k / a.inner, k % a.inner);
  });
}

template void reduce_forward(const ReduceForward<float>&);
template void reduce_forward(const ReduceForward<double>&);
template void reduce_backward(const ReduceBackward<float>&);
template void reduce_backward(const ReduceBackward<double>&);

}  // namespace cbwc::cpu
