#include "core/kernels/elementwise.h"

#include "core/parallel.h"

namespace cbwc::cpu {
namespace {

constexpr int64_t kGrain = 32768;  // elements per chunk: a chunk stays in the L2 cache

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};

// One row; the unit-stride cases are written out so that they vectorise.
template <class T, class F>
void row(const F& f, const T* a, int64_t sa, const T* b, int64_t sb, T* y, int64_t sy, int64_t n) {
  if (sy == 1 && sa == 1 && sb == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (sy == 1 && sa == 1 && sb == 0) {
    const T value = b[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], value);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i * sy] = f(a[i * sa], b[i * sb]);
  }
}

// Joins neighbouring axes that all three operands walk with one stride, and drops axes of length 1.
template <class T>
Binary<T> collapse(const Binary<T>& in) {
  Binary<T> out = in;
  out.rank = 0;
  for (int i = 0; i < in.rank; ++i) {
    if (in.shape[i] == 1) continue;
    const int last = out.rank - 1;
    const bool joins = last >= 0 && out.a_strides[last] == in.a_strides[i] * in.shape[i] &&
                       out.b_strides[last] == in.b_strides[i] * in.shape[i] &&
                       out.y_strides[last] == in.y_strides[i] * in.shape[i];
    const int at = joins ? last : out.rank++;
    out.shape[at] = joins ? out.shape[at] * in.shape[i] : in.shape[i];
    out.a_strides[at] = in.a_strides[i];
    out.b_strides[at] = in.b_strides[i];
    out.y_strides[at] = in.y_strides[i];
  }
  if (out.rank == 0) {
    out.rank = 1;
    out.shape[0] = 1;
    out.a_strides[0] = out.b_strides[0] = out.y_strides[0] = 1;
  }
  return out;
}

template <class T, class F>
void run(const F& f, const Binary<T>& in) {
  const Binary<T> p = collapse(in);
  const int inner = p.rank - 1;
  const int64_t cols = p.shape[inner];
  int64_t rows = 1;
  for (int i = 0; i < inner; ++i) rows *= p.shape[i];
  if (rows == 0 || cols == 0) return;
  const int64_t sa = p.a_strides[inner], sb = p.b_strides[inner], sy = p.y_strides[inner];
  if (rows == 1) {
    return parallel_for(cols, kGrain, [&](int64_t begin, int64_t end) {
      row(f, p.a + begin * sa, sa, p.b + begin * sb, sb, p.y + begin * sy, sy, end - begin);
    });
  }
  const int64_t grain = cols >= kGrain ? 1 : kGrain / cols;
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t rest = r, a = 0, b = 0, y = 0;
      for (int i = inner - 1; i >= 0; --i) {
        const int64_t index = rest % p.shape[i];
        rest /= p.shape[i];
        a += index * p.a_strides[i];
        b += index * p.b_strides[i];
        y += index * p.y_strides[i];
      }
      row(f, p.a + a, sa, p.b + b, sb, p.y + y, sy, cols);
    }
  });
}

}  // namespace

template <class T>
void binary(const Binary<T>& a) {
  switch (a.kind) {
    case BinaryKind::add:
      return run(Add{}, a);
    case BinaryKind::sub:
      return run(Sub{}, a);
    case BinaryKind::mul:
      return run(Mul{}, a);
  }
}

template <class T>
void add_into(T* y, const T* x, int64_t n) {
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) y[i] += x[i];
  });
}

template <class T>
void axpy(T* y, double alpha, const T* x, int64_t n) {
  const T factor = static_cast<T>(alpha);
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) y[i] += factor * x[i];
  });
}

template <class T>
void scale(T* y, double alpha, const T* x, int64_t n) {
  const T factor = static_cast<T>(alpha);
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) y[i] = factor * x[i];
  });
}

#define CBWC_INSTANTIATE(T)                          \
  template void binary(const Binary<T>&);            \
  template void add_into(T*, const T*, int64_t);     \
  template void axpy(T*, double, const T*, int64_t); \
  template void scale(T*, double, const T*, int64_t);
CBWC_INSTANTIATE(float)
CBWC_INSTANTIATE(double)
#undef CBWC_INSTANTIATE

}  // namespace cbwc::cpu
