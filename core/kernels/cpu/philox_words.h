// Philox4x32-10 for many counters at once (core/rng.h has the one-block form): vector code.
#pragma once
#include <cmath>
#include <cstdint>

namespace cbwc::cpu {

// words[4 b .. 4 b + 3] = philox(key, first + b) for b in [0, blocks).
inline void philox_words(uint64_t key, uint64_t first, int64_t blocks, uint32_t* words) {
  constexpr int kLanes = 16;
  for (int64_t b = 0; b < blocks; b += kLanes) {
    uint32_t x0[kLanes], x1[kLanes], x2[kLanes], x3[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t counter = first + static_cast<uint64_t>(b + i);
      x0[i] = static_cast<uint32_t>(counter);
      x1[i] = static_cast<uint32_t>(counter >> 32);
      x2[i] = x3[i] = 0;
    }
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
#pragma omp simd
      for (int i = 0; i < kLanes; ++i) {
        const uint64_t p = uint64_t{0xD2511F53u} * x0[i], q = uint64_t{0xCD9E8D57u} * x2[i];
        x0[i] = static_cast<uint32_t>(q >> 32) ^ x1[i] ^ k0;
        x1[i] = static_cast<uint32_t>(q);
        x2[i] = static_cast<uint32_t>(p >> 32) ^ x3[i] ^ k1;
        x3[i] = static_cast<uint32_t>(p);
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const int64_t lanes = blocks - b < kLanes ? blocks - b : kLanes;
    for (int64_t i = 0; i < lanes; ++i) {
      uint32_t* w = words + 4 * (b + i);
      w[0] = x0[i], w[1] = x1[i], w[2] = x2[i], w[3] = x3[i];
    }
  }
}

// unit_float(word) >= p, as integers: word >> 8 at least this.
inline uint32_t keep_threshold(double p) { return static_cast<uint32_t>(std::ceil(p * 0x1p24)); }

}  // namespace cbwc::cpu
