// The GPU services of a build without CUDA: nothing is there, and asking for it is an error.
#include "core/device_services.h"

#include "core/check.h"

namespace cbwc::cuda {
namespace {

[[noreturn]] void missing() {
  detail::fail("this build has no CUDA: build with cmake --preset cuda");
}

}  // namespace

bool built() { return false; }
int device_count() { return 0; }
std::string device_name() { return "none"; }
void* allocate(size_t) { missing(); }
void release(void*) noexcept {}
void copy(void*, const void*, size_t, CopyKind) { missing(); }
void fill_zero(void*, size_t) { missing(); }
void synchronize() { missing(); }

}  // namespace cbwc::cuda
