// What a GPU backend offers below the kernels. The linker chooses: core/cuda/ or the throwing stubs
// in core/no_cuda/.
#pragma once
#include <cstddef>
#include <string>

namespace cbwc::cuda {

enum class CopyKind { to_device, to_host, on_device };
bool built();               // compiled with the CUDA kernels
int device_count();         // 0 without a GPU or a driver; never throws
std::string device_name();  // "none" without one
void* allocate(size_t bytes);
void release(void* data) noexcept;
void copy(void* to, const void* from, size_t bytes, CopyKind kind);
void fill_zero(void* data, size_t bytes);
void synchronize();

}  // namespace cbwc::cuda
