// XXH64 (Collet, xxhash.com specification): a fast 64-bit checksum against damage, not against
// malice.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace cbwc {

uint64_t hash64(const void* data, size_t bytes, uint64_t seed = 0);
// The hash of the hashes of 8 MiB chunks: made in parallel, the same for any thread count.
// done(begin, end): those bytes have been read (from any thread).
uint64_t chunked_hash64(const void* data, size_t bytes, uint64_t seed = 0,
                        const std::function<void(size_t, size_t)>& done = {});
std::string hex64(uint64_t value);  // 16 lower-case digits

}  // namespace cbwc
