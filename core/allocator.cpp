#include "core/allocator.h"

#include <sys/mman.h>

#include <bit>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "core/device_services.h"

namespace cbwc {
namespace {

constexpr size_t kSmallest = 64;
// From here on memory is mapped by itself, in huge pages where the kernel grants them.
constexpr size_t kMapped = size_t{1} << 21;

void* system_allocate(size_t bytes, Device device) {
  if (device == Device::cuda) return cuda::allocate(bytes);
  if (bytes < kMapped) return ::operator new(bytes, std::align_val_t(kSmallest), std::nothrow);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void system_release(void* data, size_t bytes, Device device) noexcept {
  if (device == Device::cuda) {
    cuda::release(data);
  } else if (bytes < kMapped) {
    ::operator delete(data, std::align_val_t(kSmallest));
  } else {
    munmap(data, bytes);
  }
}

struct Pool {
  std::mutex mutex;
  std::map<size_t, std::vector<void*>> free;  // bucket size -> blocks
  MemoryStats stats;
};

// Never destroyed: a Storage may outlive every other static object.
Pool& pool(Device device) {
  static Pool* pools = new Pool[2];
  return pools[device == Device::cuda ? 1 : 0];
}

}  // namespace

size_t bucket_size(size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  // Eight buckets to each power of two.
  const size_t step = std::max<size_t>(std::bit_floor(bytes) / 8, kSmallest);
  return (bytes + step - 1) / step * step;
}

void* allocate(size_t bytes, Device device) {
  const size_t size = bucket_size(bytes);
  Pool& p = pool(device);
  {
    std::lock_guard lock(p.mutex);
    p.stats.live += size;
    p.stats.peak = std::max(p.stats.peak, p.stats.live);
    auto found = p.free.find(size);
    if (found != p.free.end() && !found->second.empty()) {
      void* data = found->second.back();
      found->second.pop_back();
      p.stats.cached -= size;
      return data;
    }
  }
  void* data = nullptr;
  try {
    data = system_allocate(size, device);
    if (data == nullptr) {
      release_cached(device);
      data = system_allocate(size, device);
    }
  } catch (...) {
    std::lock_guard lock(p.mutex);
    p.stats.live -= size;
    throw;
  }
  if (data == nullptr) {
    std::lock_guard lock(p.mutex);
    p.stats.live -= size;
    detail::fail("out of memory: cannot allocate ", size, " bytes (", p.stats.live, " in use)");
  }
  return data;
}

void release(void* data, size_t bytes, Device device) noexcept {
  const size_t size = bucket_size(bytes);
  Pool& p = pool(device);
  std::lock_guard lock(p.mutex);
  p.stats.live -= size;
  p.stats.cached += size;
  p.free[size].push_back(data);
}

MemoryStats memory_stats(Device device) {
  Pool& p = pool(device);
  std::lock_guard lock(p.mutex);
  return p.stats;
}

void reset_peak(Device device) {
  Pool& p = pool(device);
  std::lock_guard lock(p.mutex);
  p.stats.peak = p.stats.live;
}

void release_cached(Device device) {
  Pool& p = pool(device);
  std::lock_guard lock(p.mutex);
  for (auto& [size, blocks] : p.free) {
    for (void* block : blocks) system_release(block, size, device);
    blocks.clear();
  }
  p.stats.cached = 0;
}

}  // namespace cbwc
