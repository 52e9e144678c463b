#include <algorithm>

#include "core/kernels/centering.h"
#include "core/kernels/cpu/streaming.h"
#include "core/parallel.h"

namespace cbwc::cpu {
namespace {

// The axis is the last one: rows of n.
template <class T>
void center_rows(const Centering<T>& a) {
  parallel_for(a.outer, std::max<int64_t>(1, (1 << 14) / a.n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* x = a.x + r * a.n;
      T* y = a.y + r * a.n;
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < a.n; ++i) sum += static_cast<double>(x[i]);
      const T mean = static_cast<T>(sum / static_cast<double>(a.n));
      if (a.accumulate) {
#pragma omp simd
        for (int64_t i = 0; i < a.n; ++i) y[i] += x[i] - mean;
      } else {
#pragma omp simd
        for (int64_t i = 0; i < a.n; ++i) y[i] = x[i] - mean;
      }
    }
  });
}

// A block of columns of one (n, inner) matrix: means first, summed from row 0 on, then the
// subtraction.
constexpr int64_t kBlock = 128;

template <class T>
void center_columns(const Centering<T>& a, int64_t matrix, int64_t begin, int64_t width,
                    bool streamed) {
  const T* x = a.x + matrix * a.n * a.inner + begin;
  T* y = a.y + matrix * a.n * a.inner + begin;
  double sum[kBlock] = {};
  T mean[kBlock];
  for (int64_t r = 0; r < a.n; ++r) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) sum[i] += static_cast<double>(x[r * a.inner + i]);
  }
  for (int64_t i = 0; i < width; ++i) mean[i] = static_cast<T>(sum[i] / static_cast<double>(a.n));
  alignas(64) T row[kBlock];
  for (int64_t r = 0; r < a.n; ++r) {
    const T* xr = x + r * a.inner;
    T* yr = y + r * a.inner;
    if (a.accumulate) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) yr[i] += xr[i] - mean[i];
    } else {
      T* to = streamed ? row : yr;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] = xr[i] - mean[i];
      if (streamed) stream(yr, row, width * static_cast<int64_t>(sizeof(T)));
    }
  }
  if (streamed) stream_end();
}

}  // namespace

template <class T>
void center(const Centering<T>& a) {
  if (a.outer == 0 || a.n == 0 || a.inner == 0) return;
  if (a.inner == 1) return center_rows(a);
  const int64_t blocks = (a.inner + kBlock - 1) / kBlock;
  const bool streamed =
      !a.accumulate && is_streamed(a.y, a.outer * a.n, a.inner * static_cast<int64_t>(sizeof(T)));
  parallel_for(a.outer * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t column = t % blocks * kBlock;
      center_columns(a, t / blocks, column, std::min(kBlock, a.inner - column), streamed);
    }
  });
}
template void center<float>(const Centering<float>&);
template void center<double>(const Centering<double>&);

}  // namespace cbwc::cpu
