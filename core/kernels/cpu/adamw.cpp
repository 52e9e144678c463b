#include "core/kernels/adamw.h"

#include <cmath>
#include <vector>

#include "core/parallel.h"

namespace cbwc::cpu {
namespace {
constexpr int64_t kGrain =
    16384;  // elements per chunk: four float32 buffers of it fit the L2 cache
constexpr int kLanes = 16;
constexpr int64_t kAhead = 4096;  // elements; one stream of reading alone waits for memory
}  // namespace

// g = s grad; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2
// p = (1 - lr decay) p - (lr / c1) m / (sqrt(v) / sqrt(c2) + eps)
template <class T>
void adamw_update(const AdamWUpdate<T>& a) {
  const T scale = static_cast<T>(a.grad_scale), eps = static_cast<T>(a.eps);
  const T beta1 = static_cast<T>(a.beta1), rest1 = static_cast<T>(1.0 - a.beta1);
  const T beta2 = static_cast<T>(a.beta2), rest2 = static_cast<T>(1.0 - a.beta2);
  const T rate = static_cast<T>(a.lr / a.correction1);
  const T root = static_cast<T>(1.0 / std::sqrt(a.correction2));
  const T keep = static_cast<T>(1.0 - a.lr * a.decay);
  parallel_for(a.n, kGrain, [&](int64_t begin, int64_t end) {
    T* __restrict p = a.p;
    T* __restrict m = a.m;
    T* __restrict v = a.v;
    const T* __restrict grad = a.grad;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const T g = scale * grad[i];
      const T mi = beta1 * m[i] + rest1 * g;
      const T vi = beta2 * v[i] + rest2 * g * g;
      m[i] = mi;
      v[i] = vi;
      p[i] = keep * p[i] - rate * mi / (std::sqrt(vi) * root + eps);
    }
  });
}

// g = s grad + decay p; b = momentum b + g; p -= lr (nesterov ? g + momentum b : b)
template <class T>
void sgd_update(const SgdUpdate<T>& a) {
  const T scale = static_cast<T>(a.grad_scale), lr = static_cast<T>(a.lr);
  const T momentum = static_cast<T>(a.momentum), decay = static_cast<T>(a.decay);
  parallel_for(a.n, kGrain, [&](int64_t begin, int64_t end) {
    T* __restrict p = a.p;
    const T* __restrict grad = a.grad;
    if (a.b == nullptr) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) p[i] -= lr * (scale * grad[i] + decay * p[i]);
      return;
    }
    T* __restrict b = a.b;
    const T look_ahead = a.nesterov ? T{1} : T{0}, factor = a.nesterov ? momentum : T{1};
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const T g = scale * grad[i] + decay * p[i];
      const T bi = momentum * b[i] + g;
      b[i] = bi;
      p[i] -= lr * (look_ahead * g + factor * bi);
    }
  });
}

// sum x^2 in double: chunks of fixed size, joined in order
template <class T>
double sum_of_squares(const T* x, int64_t n) {
  const int64_t chunks = (n + kGrain - 1) / kGrain;
  std::vector<double> partial(static_cast<size_t>(chunks));
  parallel_for(chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      const int64_t begin = c * kGrain, end = begin + kGrain < n ? begin + kGrain : n;
      double lanes[kLanes] = {};
      int64_t i = begin;
      for (; i + kLanes <= end; i += kLanes) {
        __builtin_prefetch(x + i + kAhead);
#pragma omp simd
        for (int l = 0; l < kLanes; ++l) {
          const double value = static_cast<double>(x[i + l]);
          lanes[l] += value * value;
        }
      }
      for (int l = 0; i < end; ++i, ++l) {
        const double value = static_cast<double>(x[i]);
        lanes[l] += value * value;
      }
      double total = 0;
      for (double lane : lanes) total += lane;
      partial[c] = total;
    }
  });
  double total = 0;
  for (double value : partial) total += value;
  return total;
}

#define CBWC_INSTANTIATE(T)                          \
  template void adamw_update(const AdamWUpdate<T>&); \
  template void sgd_update(const SgdUpdate<T>&);     \
  template double sum_of_squares(const T*, int64_t);
CBWC_INSTANTIATE(float)
CBWC_INSTANTIATE(double)
#undef CBWC_INSTANTIATE

}  // namespace cbwc::cpu
