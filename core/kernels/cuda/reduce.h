// What the norms share: sums over a block, and the two-stage sums over rows behind dgamma and
// dbeta. Every order of summation is fixed by the sizes alone, so the same input gives the same
// bits.
#pragma once
#include <cstdint>

#include "core/kernels/cuda/launch.h"

namespace cbwc::cuda {

constexpr int kThreads = 128;
constexpr int kWarp = 32;
constexpr size_t kReduceBytes = kThreads / kWarp * sizeof(double);
constexpr int64_t kMaxBlocks = 8192;  // more rows than this: a block takes several

inline int64_t capped_blocks(int64_t jobs) { return jobs < kMaxBlocks ? jobs : kMaxBlocks; }

template <class A>
__device__ bool is_finite(A value) {
  return value - value == A(0);
}

// The sum over the block, the same bits in every thread. All threads of the block must call it.
template <class A>
__device__ A block_sum(A value) {
  A* shared = shared_memory<A>();
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  A sum = A(0);
  for (int warp = 0; warp < kThreads / kWarp; ++warp) sum += shared[warp];
  __syncthreads();  // nobody may write the next sum before all have read this one
  return sum;
}

// Stage one works on chunks of rows; their number depends on the number of rows only.
struct RowChunks {
  int64_t count, size;
};
inline RowChunks row_chunks(int64_t rows) {
  constexpr int64_t kMinRows = 32, kMaxChunks = 256;
  int64_t size = (rows + kMaxChunks - 1) / kMaxChunks;
  if (size < kMinRows) size = kMinRows;
  return {(rows + size - 1) / size, size};
}

// Stage two: out[c] (+)= the sum over chunks of partial[chunk][c], in chunk order.
template <class T>
__global__ void sum_chunks(const double* partial, T* out, int64_t chunks, int64_t cols,
                           bool accumulate) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; c < cols; c += step) {
    double sum = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * cols + c];
    out[c] = static_cast<T>(accumulate ? static_cast<double>(out[c]) + sum : sum);
  }
}

inline int64_t column_tiles(int64_t cols) { return (cols + kThreads - 1) / kThreads; }

}  // namespace cbwc::cuda
