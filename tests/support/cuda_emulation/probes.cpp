#include "tests/support/cuda_emulation/probes.h"

#include "core/check.h"
#include "tests/support/cuda_emulation/emulation.h"

namespace cbwc::emulated {
namespace {

constexpr unsigned kAll = 0xffffffffu;

__global__ void skipped_barrier() {
  if (threadIdx.x == 5) return;
  __syncthreads();
}

__global__ void two_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void skipped_shuffle() {
  if (threadIdx.x != 7) __shfl_xor_sync(kAll, 1.0f, 1);
  __syncthreads();
}

__global__ void foreign_lane() { __shfl_xor_sync(kAll, 1.0f, 1); }

__global__ void shared_overrun() { shared_memory<float>()[threadIdx.x] = 1.0f; }

// out[block * 64 + thread] = a value that its partner in the other warp wrote + its shuffled
// neighbours.
__global__ void good(int* out) {
  const int thread = static_cast<int>(threadIdx.x);
  int* shared = shared_memory<int>();
  shared[thread] = 1000 * thread;
  __syncthreads();
  int value = shared[thread ^ 32];
  value += __shfl_down_sync(kAll, thread, 1);
  value += __shfl_sync(kAll, thread, 3);
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

}  // namespace

void probe_skipped_barrier() { launch("probe", skipped_barrier, Grid{1, 64}); }
void probe_two_barriers() { launch("probe", two_barriers, Grid{1, 64}); }
void probe_skipped_shuffle() { launch("probe", skipped_shuffle, Grid{1, 32}); }
void probe_foreign_lane() { launch("probe", foreign_lane, Grid{1, 16}); }
void probe_shared_overrun() { launch("probe", shared_overrun, Grid{1, 32, 31 * sizeof(float)}); }

void probe_good() {
  std::vector<int> out(128, -1);
  int* const data = out.data();
  launch("probe", good, Grid{2, 64, 64 * sizeof(int)}, data);
  for (int i = 0; i < 128; ++i) {
    const int thread = i % 64, lane = thread % 32;
    const int want =
        1000 * (thread ^ 32) + (lane < 31 ? thread + 1 : thread) + (thread / 32 * 32 + 3);
    CBWC_CHECK(out[static_cast<size_t>(i)] == want, "probe: thread ", i, " got ",
               out[static_cast<size_t>(i)], ", expected ", want);
  }
}

}  // namespace cbwc::emulated
