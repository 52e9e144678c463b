// The caching allocator: memory comes from the system once and is reused, because fresh pages cost
// more than the kernel that fills them. Thread-safe. Blocks are 64-byte aligned.
#pragma once
#include <cstddef>

#include "core/dtype.h"

namespace cbwc {

struct MemoryStats {  // bytes, per device
  size_t live = 0;    // handed out now (bucket sizes)
  size_t peak = 0;    // the largest live since reset_peak()
  size_t cached = 0;  // free, kept for reuse
};

void* allocate(size_t bytes, Device device);  // throws Error when the memory cannot be had
void release(void* data, size_t bytes, Device device) noexcept;  // bytes as given to allocate
MemoryStats memory_stats(Device device);
void reset_peak(Device device);
void release_cached(Device device);  // gives the free blocks back to the system

size_t bucket_size(size_t bytes);  // what allocate really takes: at most 1/8 more, 64 at least

}  // namespace cbwc
