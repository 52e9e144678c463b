// Element-wise activations: y = x Phi(x) (GELU, erf or tanh form), max(x, 0), x sigmoid(x),
// tanh(x), sigmoid(x).
#pragma once
#include "core/dtype.h"

namespace cbwc {

enum class Activation { gelu_erf, gelu_tanh, relu, silu, tanh, sigmoid };

template <class T>
struct ActivationForward {
  const T* x;  // (n)
  T* y;        // (n); may be x
  int64_t n;
  Activation kind;
};

template <class T>
struct ActivationBackward {
  const T* dy;  // (n)
  const T* x;   // (n), the forward's input
  T* dx;        // (n), written; may be dy
  int64_t n;
  Activation kind;
};

namespace cpu {
template <class T>
void activation_forward(const ActivationForward<T>& a);
template <class T>
void activation_backward(const ActivationBackward<T>& a);
}  // namespace cpu

}  // namespace cbwc
