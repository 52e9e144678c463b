// Cross-entropy of rows of logits z: (1 - s)(lse - z[target]) + s (lse - mean(z)), s the label
// smoothing, lse = log sum exp z. Rows whose target is ignore_index give loss and gradient 0.
#pragma once
#include "core/dtype.h"

namespace cbwc {

template <class T, class I>
struct CrossEntropyForward {
  const T* logits;   // (rows, cols)
  const I* targets;  // (rows), each in [0, cols) or ignore_index: checked by the caller
  T* lse;            // (rows)
  double* loss;      // (rows)
  int64_t rows, cols, ignore_index;
  double label_smoothing;
};

template <class T, class I>
struct CrossEntropyBackward {
  const T* logits;   // (rows, cols)
  const I* targets;  // (rows)
  const T* lse;      // (rows)
  double dloss;      // the gradient of the summed loss
  T* dlogits;        // (rows, cols), written; may be logits
  int64_t rows, cols, ignore_index;
  double label_smoothing;
};

namespace cpu {
template <class T, class I>
void cross_entropy_forward(const CrossEntropyForward<T, I>& a);
template <class T, class I>
void cross_entropy_backward(const CrossEntropyBackward<T, I>& a);
}  // namespace cpu

}  // namespace cbwc
