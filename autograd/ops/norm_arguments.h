// What layer_norm and rms_norm share: the checks of their arguments, and the optional pieces.
#pragma once
#include "autograd/tape.h"

namespace cbwc {

void check_norm_arguments(const char* who, const Variable& x, const Variable& gamma,
                          const Variable& beta, double eps);

template <class T>
T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

// The target of input i, or an undefined buffer when its gradient is not wanted.
inline Gradients::Target target_or_none(Gradients& g, int i) {
  return g.wants(i) ? g.target(i) : Gradients::Target{Tensor(), false};
}

}  // namespace cbwc
