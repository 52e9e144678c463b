// The one way a kernel is launched, its shared memory and its scratch memory. The emulation of the
// tests (tests/support/cuda_emulation/emulation.h) offers the same names and takes this header's
// place.
#ifndef CBWC_CUDA_LAUNCH_H
#define CBWC_CUDA_LAUNCH_H
#include <cuda_runtime.h>

#include <cstdint>

#include "core/allocator.h"
#include "core/check.h"

namespace cbwc::cuda {

struct Grid {
  int64_t blocks;
  int threads;              // per block, a multiple of 32
  size_t shared_bytes = 0;  // dynamic shared memory per block
  cudaStream_t stream = nullptr;
};

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const Grid& grid,
            const Arguments&... arguments) {
  kernel<<<static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.threads),
           grid.shared_bytes, grid.stream>>>(arguments...);
  const cudaError_t status = cudaGetLastError();
  CBWC_CHECK(status == cudaSuccess, name,
             ": the CUDA kernel was not launched: ", cudaGetErrorString(status));
}

// The block's dynamic shared memory.
template <class T>
__device__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char cbwc_shared_bytes[];
  return reinterpret_cast<T*>(cbwc_shared_bytes);
}

// Device memory for the length of a call. All work goes to one stream, so that the allocator may
// hand the block to the next call while this one's kernels are still in flight.
template <class T>
class Workspace {
 public:
  explicit Workspace(int64_t count)
      : bytes_(static_cast<size_t>(count) * sizeof(T)),
        data_(static_cast<T*>(::cbwc::allocate(bytes_, Device::cuda))) {}
  ~Workspace() { ::cbwc::release(data_, bytes_, Device::cuda); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  T* data() const { return data_; }

 private:
  size_t bytes_;
  T* data_;
};

}  // namespace cbwc::cuda
#endif
