// Elementary functions that gcc turns into vector code inside `#pragma omp simd` loops: float32 by
// plain arithmetic (errors of 1-2 units in the last place, tests/ops/activation_test.cpp), float64
// by std::.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace cbwc::cpu {

#define CBWC_INLINE inline __attribute__((always_inline))

// e^x. Below -86.9 (2e-38) the result is 0, so that no denormal slows a softmax down. NaN stays
// NaN.
CBWC_INLINE float vexp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLowest = -86.9f, kHighest = 88.8f;
  const float c = x < kLowest ? kLowest : (x > kHighest ? kHighest : x);
  const float shifted = c * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  float r = c - n * 0.693359375f;  // ln 2 in two parts: the first is exact in few bits
  r = r + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  // 2^(n-1), then times 2: n reaches 128, whose exponent alone would already be infinity.
  const uint32_t bits = (std::bit_cast<uint32_t>(shifted) + 126u) << 23;
  const float y = p * std::bit_cast<float>(bits) * 2.0f;
  return x < kLowest ? 0.0f : y;
}
CBWC_INLINE double vexp(double x) { return std::exp(x); }

// 1 / (1 + e^-x)
template <class T>
CBWC_INLINE T vsigmoid(T x) {
  return T(1) / (T(1) + vexp(-x));
}

CBWC_INLINE float vtanh(float x) {
  const float a = std::fabs(x), z = x * x;
  const float large = 1.0f - 2.0f / (vexp(2.0f * a) + 1.0f);
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float small = p * z * x + x;
  return a < 0.625f ? small : std::copysign(large, x);
}
CBWC_INLINE double vtanh(double x) { return std::tanh(x); }

// erf for |x| <= 1 (the series of Cephes) ...
CBWC_INLINE float erf_near(float x) {
  const float z = x * x;
  float p = 7.853861353153693e-5f;
  p = p * z - 8.010193625184903e-4f;
  p = p * z + 5.188327685732524e-3f;
  p = p * z - 2.685381193529856e-2f;
  p = p * z + 1.128358514861418e-1f;
  p = p * z - 3.761262582423300e-1f;
  p = p * z + 1.128379165726710f;
  return p * x;
}
// ... and erfc for a >= 1, relative error about 1e-6 down to 1e-37 (Numerical Recipes' erfcc).
CBWC_INLINE float erfc_far(float a, float square) {
  const float t = 1.0f / (1.0f + 0.5f * a);
  float p = 0.17087277f;
  p = p * t - 0.82215223f;
  p = p * t + 1.48851587f;
  p = p * t - 1.13520398f;
  p = p * t + 0.27886807f;
  p = p * t - 0.18628806f;
  p = p * t + 0.09678418f;
  p = p * t + 0.37409196f;
  p = p * t + 1.00002368f;
  return t * vexp(-square + (p * t - 1.26551223f));
}

CBWC_INLINE float verf(float x) {
  const float a = std::fabs(x);
  const float far = std::copysign(1.0f - erfc_far(a, a * a), x);
  return a < 1.0f ? erf_near(x) : far;
}
CBWC_INLINE double verf(double x) { return std::erf(x); }

// The normal distribution function, accurate in the lower tail too.
CBWC_INLINE float vnormal_cdf(float x) {
  const float z = x * 0.70710678118654752f, a = std::fabs(z);
  const float tail = 0.5f * erfc_far(a, 0.5f * x * x);
  const float far = x < 0.0f ? tail : 1.0f - tail;
  return a < 1.0f ? 0.5f + 0.5f * erf_near(z) : far;
}
CBWC_INLINE double vnormal_cdf(double x) { return 0.5 * std::erfc(x * -0.70710678118654752440); }

// The largest element; NaNs are passed over, -inf when there is nothing else.
template <class T>
inline T largest(const T* x, int64_t n) {
  T m = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : m)
  for (int64_t j = 0; j < n; ++j) m = x[j] > m ? x[j] : m;
  return m;
}

// Sums in a fixed order: partial sums in lanes, joined as a tree. (gcc joins those of a simd
// reduction one after the other, which takes longer than a short row itself.)
constexpr int kSumLanes = 16;

template <class T>
inline T join_lanes(T (&lanes)[kSumLanes]) {
#pragma GCC unroll 4
  for (int half = kSumLanes / 2; half > 0; half /= 2)
#pragma omp simd
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

template <class T>
inline T sum_of(const T* x, int64_t n) {
  T lanes[kSumLanes] = {};
  int64_t j = 0;
  for (; j + kSumLanes <= n; j += kSumLanes)
#pragma omp simd
    for (int l = 0; l < kSumLanes; ++l) lanes[l] += x[j + l];
  for (int l = 0; j < n; ++j, ++l) lanes[l] += x[j];
  return join_lanes(lanes);
}

template <class T>
inline T dot_of(const T* x, const T* y, int64_t n) {
  T lanes[kSumLanes] = {};
  int64_t j = 0;
  for (; j + kSumLanes <= n; j += kSumLanes)
#pragma omp simd
    for (int l = 0; l < kSumLanes; ++l) lanes[l] += x[j + l] * y[j + l];
  for (int l = 0; j < n; ++j, ++l) lanes[l] += x[j] * y[j];
  return join_lanes(lanes);
}

template <class T>
inline bool has_nan(const T* x, int64_t n) {
  for (int64_t j = 0; j < n; ++j)
    if (x[j] != x[j]) return true;
  return false;
}

// The sum of f(x, n) over pieces of 1024 elements of x: in T inside a piece, in double across. f
// gets plain arguments because gcc turns a captured pointer in a simd loop into gathers.
template <class T, class F>
inline double sum_in_pieces(const T* x, int64_t n, const F& f) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += 1024)
    total += static_cast<double>(f(x + begin, begin + 1024 < n ? 1024 : n - begin));
  return total;
}

}  // namespace cbwc::cpu
