#include "data/hash.h"

#include <bit>
#include <cstring>
#include <vector>

#include "core/parallel.h"

namespace cbwc {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9, kPrime4 = 0x85EBCA77C2B2AE63;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5;
constexpr size_t kChunk = size_t{8} << 20;

template <class T>
T load(const unsigned char* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

uint64_t mix(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

uint64_t merge(uint64_t hash, uint64_t lane) { return (hash ^ mix(0, lane)) * kPrime1 + kPrime4; }

}  // namespace

uint64_t hash64(const void* data, size_t bytes, uint64_t seed) {
  const auto* p = static_cast<const unsigned char*>(data);
  const unsigned char* const end = p + bytes;
  uint64_t hash = seed + kPrime5;
  if (bytes >= 32) {
    uint64_t a = seed + kPrime1 + kPrime2, b = seed + kPrime2, c = seed, d = seed - kPrime1;
    for (; end - p >= 32; p += 32) {
      a = mix(a, load<uint64_t>(p));
      b = mix(b, load<uint64_t>(p + 8));
      c = mix(c, load<uint64_t>(p + 16));
      d = mix(d, load<uint64_t>(p + 24));
    }
    hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    hash = merge(merge(merge(merge(hash, a), b), c), d);
  }
  hash += bytes;
  for (; end - p >= 8; p += 8)
    hash = std::rotl(hash ^ mix(0, load<uint64_t>(p)), 27) * kPrime1 + kPrime4;
  if (end - p >= 4) {
    hash = std::rotl(hash ^ (load<uint32_t>(p) * kPrime1), 23) * kPrime2 + kPrime3;
    p += 4;
  }
  for (; p < end; ++p) hash = std::rotl(hash ^ (*p * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

uint64_t chunked_hash64(const void* data, size_t bytes, uint64_t seed,
                        const std::function<void(size_t, size_t)>& done) {
  std::vector<uint64_t> hashes(bytes / kChunk + 1);
  const auto* p = static_cast<const unsigned char*>(data);
  parallel_for(static_cast<int64_t>(hashes.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t from = static_cast<size_t>(i) * kChunk;
      const size_t length = bytes - from < kChunk ? bytes - from : kChunk;
      hashes[static_cast<size_t>(i)] = hash64(p + from, length, seed);
      if (done) done(from, from + length);
    }
  });
  return hash64(hashes.data(), hashes.size() * sizeof(uint64_t), bytes ^ seed);
}

std::string hex64(uint64_t value) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

}  // namespace cbwc
