#include "core/device_services.h"

#include <cuda_runtime.h>

#include "core/check.h"

namespace cbwc::cuda {
namespace {

void check(cudaError_t status, const char* what) {
  CBWC_CHECK(status == cudaSuccess, "CUDA: ", what, ": ", cudaGetErrorString(status));
}

}  // namespace

bool built() { return true; }

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // the error would otherwise be reported by the next launch
  return 0;
}

std::string device_name() {
  cudaDeviceProp properties{};
  if (device_count() == 0 || cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return "none";
  return properties.name;
}

void* allocate(size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status != cudaSuccess) cudaGetLastError();
  CBWC_CHECK(status == cudaSuccess, "CUDA: no ", bytes,
             " bytes of device memory: ", cudaGetErrorString(status));
  return data;
}

void release(void* data) noexcept { cudaFree(data); }

void copy(void* to, const void* from, size_t bytes, CopyKind kind) {
  const cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                  cudaMemcpyDeviceToDevice};
  check(cudaMemcpy(to, from, bytes, kinds[static_cast<int>(kind)]), "copy");
}

void fill_zero(void* data, size_t bytes) { check(cudaMemset(data, 0, bytes), "fill with zeros"); }

void synchronize() { check(cudaDeviceSynchronize(), "synchronize"); }

}  // namespace cbwc::cuda
