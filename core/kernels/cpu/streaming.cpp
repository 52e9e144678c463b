#include "core/kernels/cpu/streaming.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace cbwc::cpu {
namespace {

constexpr int64_t kLine = 64, kLarge = 8 << 20;

std::optional<bool>& forced() {
  static std::optional<bool> value;
  return value;
}

double seconds_of(void (*copy)(void*, const void*, int64_t), void* to, const void* from) {
  const auto start = std::chrono::steady_clock::now();
  copy(to, from, kLarge);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A copy of the smallest large result within the caches, if they hold it, against one past them.
bool measured() {
  const auto buffer = [] {
    std::unique_ptr<void, void (*)(void*)> p(std::aligned_alloc(kLine, kLarge), std::free);
    if (p) std::memset(p.get(), 1, kLarge);
    return p;
  };
  const auto from = buffer(), to = buffer();
  if (!from || !to) return false;
  const auto plain_copy = [](void* a, const void* b, int64_t n) {
    auto* x = static_cast<double*>(a);
    const auto* y = static_cast<const double*>(b);
    for (int64_t i = 0; i < n / 8; ++i) x[i] = y[i];
  };
  const auto past = [](void* a, const void* b, int64_t n) {
    stream(a, b, n);
    stream_end();
  };
  constexpr int kRounds = 4;
  double plain = 1, streamed = 1;
  for (int round = 0; round < kRounds; ++round) {
    (void)seconds_of(plain_copy, to.get(), from.get());  // what the streamed copy left is back
    plain = std::min(plain, seconds_of(plain_copy, to.get(), from.get()));
    streamed = std::min(streamed, seconds_of(past, to.get(), from.get()));
  }
  // Where the two are near each other, what else is in the caches decides: it stays.
  constexpr double kWorth = 1.5;
  return streamed < kWorth * plain;
}

}  // namespace

bool is_streamed(const void* out, int64_t rows, int64_t row_bytes) {
  if (out == nullptr || rows * row_bytes < kLarge || row_bytes % kLine != 0 ||
      reinterpret_cast<uintptr_t>(out) % kLine != 0)
    return false;
  if (forced()) return *forced();
  static const bool pays = measured();
  return pays;
}

#ifdef __AVX512F__
void stream(void* to, const void* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(static_cast<char*>(to) + i),
                        _mm512_load_si512(static_cast<const char*>(from) + i));
}
#elif defined(__AVX__)
void stream(void* to, const void* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 32)
    _mm256_stream_si256(
        reinterpret_cast<__m256i*>(static_cast<char*>(to) + i),
        _mm256_load_si256(reinterpret_cast<const __m256i*>(static_cast<const char*>(from) + i)));
}
#else
void stream(void* to, const void* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}
#endif

void stream_end() {
#ifdef __AVX__
  _mm_sfence();
#endif
}

void force_streaming(std::optional<bool> pays) { forced() = pays; }

}  // namespace cbwc::cpu
