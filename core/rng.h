// Counter-based random numbers: Philox4x32-10 (Salmon et al., 2011). A number depends on (seed,
// stream, position) only, never on threads or on what other streams have drawn.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "core/tensor.h"

namespace cbwc {

// One Philox block: four uniform 32-bit words for this key and counter.
std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high = 0);

inline float unit_float(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}  // [0,1)
inline double unit_double(uint32_t a, uint32_t b) {
  return static_cast<double>((static_cast<uint64_t>(a) << 21) ^ (b >> 11)) * 0x1p-53;
}

// A named stream. State = (key, position); both are saved in a checkpoint.
class Rng {
 public:
  Rng(uint64_t seed, const std::string& stream);  // e.g. Rng(1, "dropout"), Rng(1, "init/wte")
  uint32_t next_u32();
  uint64_t below(uint64_t n);  // uniform in [0, n), n >= 1, without modulo bias
  double uniform();            // [0, 1)
  double normal();             // mean 0, deviation 1 (Box-Muller)
  // Reserves `blocks` Philox blocks for a kernel that indexes them itself; returns the first.
  uint64_t reserve(uint64_t blocks);

  uint64_t key() const { return key_; }
  uint64_t position() const { return position_; }
  void set_position(uint64_t position);

 private:
  uint64_t key_, position_ = 0;
  std::array<uint32_t, 4> words_{};
  int used_ = 4;
};

// Fill a float tensor in place. float32 and float64 tensors of one stream get the same numbers
// (float64's rounded to float32), so that models of both types start equal.
void fill_normal(Tensor& x, double mean, double deviation, Rng& rng);
void fill_uniform(Tensor& x, double low, double high, Rng& rng);

}  // namespace cbwc
