// Enough of CUDA to run a .cu file of core/kernels/cuda with g++, on host memory: the threads of a
// block are fibers that take turns. Takes the place of core/kernels/cuda/launch.h, so it must come
// first. A barrier or a shuffle that not all of its threads reach, at one place in the source, is
// an Error.
#pragma once
#ifdef CBWC_CUDA_LAUNCH_H
#error "emulation.h must come before core/kernels/cuda/launch.h"
#endif
#define CBWC_CUDA_LAUNCH_H
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline

namespace cbwc::emulated {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
struct Grid {
  int64_t blocks;
  int threads;
  size_t shared_bytes = 0;
  const void* stream = nullptr;
};

// The running thread's place; set by run_grid.
inline Index current_thread, current_block, block_size, grid_size;

void run_grid(const char* name, const Grid& grid, const std::function<void()>& thread);
void barrier(int line);
// The value of lane `source` of the warp, once all lanes of `mask` are here with theirs.
uint64_t exchange(unsigned mask, uint64_t value, int source, int line);
unsigned char* shared_bytes();

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const Grid& grid,
            const Arguments&... arguments) {
  run_grid(name, grid, [&] { kernel(arguments...); });
}

template <class T>
T* shared_memory() {
  return reinterpret_cast<T*>(shared_bytes());
}

template <class T>
class Workspace {
 public:
  // Filled with NaN: reading what no kernel wrote shows.
  explicit Workspace(int64_t count) : values_(static_cast<size_t>(count)) {
    if (count > 0) std::memset(values_.data(), 0xff, values_.size() * sizeof(T));
  }
  T* data() { return values_.data(); }

 private:
  std::vector<T> values_;
};

template <class T>
T shuffle(unsigned mask, T value, int source, int line) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, source, line);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
inline int lane() { return static_cast<int>(current_thread.x % 32); }

}  // namespace cbwc::emulated

#define threadIdx ::cbwc::emulated::current_thread
#define blockIdx ::cbwc::emulated::current_block
#define blockDim ::cbwc::emulated::block_size
#define gridDim ::cbwc::emulated::grid_size

inline void __syncthreads(int line = __builtin_LINE()) { cbwc::emulated::barrier(line); }
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int line = __builtin_LINE()) {
  return cbwc::emulated::shuffle(mask, value, source & 31, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int line = __builtin_LINE()) {
  return cbwc::emulated::shuffle(mask, value, (cbwc::emulated::lane() ^ bits) & 31, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int delta, int line = __builtin_LINE()) {
  const int lane = cbwc::emulated::lane();
  return cbwc::emulated::shuffle(mask, value, lane + delta < 32 ? lane + delta : lane, line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int delta, int line = __builtin_LINE()) {
  const int lane = cbwc::emulated::lane();
  return cbwc::emulated::shuffle(mask, value, lane >= delta ? lane - delta : lane, line);
}
