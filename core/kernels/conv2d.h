// 2-D convolution (cross-correlation), NCHW, with zero padding and groups: per sample and group a
// matrix product with the patches laid out as columns (im2col). The same bits for any thread count.
#pragma once
#include "core/dtype.h"

namespace cbwc {

struct Conv2dSizes {
  int64_t batch, in, height, width;  // of x
  int64_t out, kernel_h, kernel_w;   // of w: (out, in / groups, kernel_h, kernel_w)
  int64_t stride = 1, padding = 0, groups = 1;
  int64_t out_height() const { return (height + 2 * padding - kernel_h) / stride + 1; }
  int64_t out_width() const { return (width + 2 * padding - kernel_w) / stride + 1; }
};

template <class T>
struct Conv2dForward {
  const T* x;  // (batch, in, height, width)
  const T* w;
  const T* b;  // (out), or null
  T* y;        // (batch, out, out_height, out_width)
  Conv2dSizes sizes;
};

template <class T>
struct Conv2dBackward {
  const T *x, *w, *dy;
  T *dx, *dw, *db;  // null: not wanted
  bool accumulate_dx = false, accumulate_dw = false, accumulate_db = false;
  Conv2dSizes sizes;
};

namespace cpu {
template <class T>
void conv2d_forward(const Conv2dForward<T>& a);
template <class T>
void conv2d_backward(const Conv2dBackward<T>& a);
}  // namespace cpu

}  // namespace cbwc
