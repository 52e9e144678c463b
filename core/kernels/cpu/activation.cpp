#include "core/kernels/activation.h"

#include "core/kernels/cpu/vector_math.h"
#include "core/parallel.h"

namespace cbwc::cpu {
namespace {
constexpr int64_t kGrain = 16384;

// y = x Phi(x);  dy/dx = Phi(x) + x phi(x)
struct GeluErf {
  template <class T>
  static CBWC_INLINE T value(T x) {
    return x * vnormal_cdf(x);
  }
  template <class T>
  static CBWC_INLINE T slope(T x) {
    const T density = T(0.39894228040143267794) * vexp(T(-0.5) * x * x);
    return vnormal_cdf(x) + x * density;
  }
};

// y = x (1 + tanh u) / 2 = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the sigmoid keeps its
// digits where 1 + tanh u cancels.
struct GeluTanh {
  static constexpr double kTwoRoot = 1.59576912160573071176, kCube = 0.044715;
  template <class T>
  static CBWC_INLINE T value(T x) {
    return x * vsigmoid(T(kTwoRoot) * x * (T(1) + T(kCube) * x * x));
  }
  template <class T>
  static CBWC_INLINE T slope(T x) {
    const T square = x * x;
    const T s = vsigmoid(T(kTwoRoot) * x * (T(1) + T(kCube) * square));
    return s + x * s * (T(1) - s) * T(kTwoRoot) * (T(1) + T(3 * kCube) * square);
  }
};

// y = max(x, 0), NaN kept;  dy/dx = 1 where x > 0, else 0
struct Relu {
  template <class T>
  static CBWC_INLINE T value(T x) {
    return x < T(0) ? T(0) : x;
  }
  template <class T>
  static CBWC_INLINE T slope(T x) {
    return x > T(0) ? T(1) : T(0);
  }
};

// y = x s, s = sigmoid(x);  dy/dx = s (1 + x (1 - s))
struct Silu {
  template <class T>
  static CBWC_INLINE T value(T x) {
    return x * vsigmoid(x);
  }
  template <class T>
  static CBWC_INLINE T slope(T x) {
    const T s = vsigmoid(x);
    return s * (T(1) + x * (T(1) - s));
  }
};

// y = tanh(x);  dy/dx = 1 - y^2
struct Tanh {
  template <class T>
  static CBWC_INLINE T value(T x) {
    return vtanh(x);
  }
  template <class T>
  static CBWC_INLINE T slope(T x) {
    const T y = vtanh(x);
    return T(1) - y * y;
  }
};

// y = sigmoid(x);  dy/dx = y (1 - y)
struct Sigmoid {
  template <class T>
  static CBWC_INLINE T value(T x) {
    return vsigmoid(x);
  }
  template <class T>
  static CBWC_INLINE T slope(T x) {
    const T y = vsigmoid(x);
    return y * (T(1) - y);
  }
};

template <class Kind, class T>
void run_forward(const ActivationForward<T>& a) {
  parallel_for(a.n, kGrain, [&a](int64_t begin, int64_t end) {
    const T* x = a.x;
    T* y = a.y;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) y[i] = Kind::value(x[i]);
  });
}

template <class Kind, class T>
void run_backward(const ActivationBackward<T>& a) {
  parallel_for(a.n, kGrain, [&a](int64_t begin, int64_t end) {
    const T *x = a.x, *dy = a.dy;
    T* dx = a.dx;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) dx[i] = dy[i] * Kind::slope(x[i]);
  });
}

template <class F>
void with_kind(Activation kind, const F& f) {
  switch (kind) {
    case Activation::gelu_erf:
      return f(GeluErf{});
    case Activation::gelu_tanh:
      return f(GeluTanh{});
    case Activation::relu:
      return f(Relu{});
    case Activation::silu:
      return f(Silu{});
    case Activation::tanh:
      return f(Tanh{});
    case Activation::sigmoid:
      return f(Sigmoid{});
  }
}
}  // namespace

template <class T>
void activation_forward(const ActivationForward<T>& a) {
  with_kind(a.kind, [&](auto kind) { run_forward<decltype(kind)>(a); });
}

template <class T>
void activation_backward(const ActivationBackward<T>& a) {
  with_kind(a.kind, [&](auto kind) { run_backward<decltype(kind)>(a); });
}

template void activation_forward(const ActivationForward<float>&);
template void activation_forward(const ActivationForward<double>&);
template void activation_backward(const ActivationBackward<float>&);
template void activation_backward(const ActivationBackward<double>&);

}  // namespace cbwc::cpu
