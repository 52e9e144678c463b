#include "core/rng.h"

#include <cmath>
#include <numbers>

#include "core/parallel.h"

namespace cbwc {
namespace {

// splitmix64's finaliser: spreads a seed or a name over all 64 bits.
uint64_t mix(uint64_t z) {
  z += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

uint64_t stream_key(uint64_t seed, const std::string& stream) {
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  for (unsigned char c : stream) hash = (hash ^ c) * 0x100000001B3u;
  return mix(mix(seed) ^ hash);
}

constexpr int64_t kGrain = 1 << 12;  // pairs per chunk

// Element pair p comes from block first + p: two doubles in [0, 1).
template <class T, class F>
void fill_pairs(T* x, int64_t n, uint64_t key, uint64_t first, const F& f) {
  parallel_for((n + 1) / 2, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const auto w = philox(key, first + static_cast<uint64_t>(p));
      double pair[2];
      f(unit_double(w[0], w[1]), unit_double(w[2], w[3]), pair);
      x[2 * p] = static_cast<T>(pair[0]);
      if (2 * p + 1 < n) x[2 * p + 1] = static_cast<T>(pair[1]);
    }
  });
}

template <class F>
void fill(Tensor& x, Rng& rng, const F& f) {
  const int64_t n = x.numel();
  const uint64_t first = rng.reserve(static_cast<uint64_t>((n + 1) / 2));
  CBWC_CHECK(x.is_contiguous() && x.device() == Device::cpu,
             "fill: expected a contiguous CPU tensor");
  dispatch_float(x.dtype(), "fill", [&](auto zero) {
    using T = decltype(zero);
    fill_pairs(x.data<T>(), n, rng.key(), first, f);
  });
}

}  // namespace

std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

Rng::Rng(uint64_t seed, const std::string& stream) : key_(stream_key(seed, stream)) {}

uint32_t Rng::next_u32() {
  if (used_ == 4) {
    words_ = philox(key_, position_++);
    used_ = 0;
  }
  return words_[used_++];
}

uint64_t Rng::below(uint64_t n) {
  CBWC_CHECK(n >= 1, "Rng::below: n must be at least 1");
  // Rejection: draws from the incomplete last group of n are thrown away.
  const uint64_t limit = n * (UINT64_MAX / n);
  for (;;) {
    const uint64_t high = next_u32();
    const uint64_t draw = high << 32 | next_u32();
    if (draw < limit) return draw % n;
  }
}

double Rng::uniform() {
  const uint32_t a = next_u32();
  return unit_double(a, next_u32());
}

double Rng::normal() {
  const double u = uniform();
  return std::sqrt(-2.0 * std::log1p(-u)) * std::cos(2.0 * std::numbers::pi * uniform());
}

uint64_t Rng::reserve(uint64_t blocks) {
  const uint64_t first = position_;
  set_position(position_ + blocks);
  return first;
}

void Rng::set_position(uint64_t position) {
  position_ = position;
  used_ = 4;
}

void fill_normal(Tensor& x, double mean, double deviation, Rng& rng) {
  fill(x, rng, [=](double u, double v, double* out) {
    const double r = deviation * std::sqrt(-2.0 * std::log1p(-u));
    out[0] = mean + r * std::cos(2.0 * std::numbers::pi * v);
    out[1] = mean + r * std::sin(2.0 * std::numbers::pi * v);
  });
}

void fill_uniform(Tensor& x, double low, double high, Rng& rng) {
  fill(x, rng, [=](double u, double v, double* out) {
    out[0] = low + (high - low) * u;
    out[1] = low + (high - low) * v;
  });
}

}  // namespace cbwc
