#include "core/kernels/softmax.h"

#include <algorithm>

#include "core/kernels/cpu/rows.h"
#include "core/kernels/cpu/vector_math.h"
#include "core/parallel.h"

namespace cbwc::cpu {
namespace {
// y = exp(x - max) / sum
template <class T>
void forward_row(const T* x, T* y, int64_t cols) {
  const T m = largest(x, cols);
  if (m == -std::numeric_limits<T>::infinity() && !has_nan(x, cols)) {
    std::fill(y, y + cols, T(0));
    return;
  }
#pragma omp simd
  for (int64_t j = 0; j < cols; ++j) y[j] = vexp(x[j] - m);
  const double sum = sum_in_pieces(y, cols, [](const T* e, int64_t n) {
    T s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < n; ++j) s += e[j];
    return s;
  });
  const T scale = static_cast<T>(1 / sum);
#pragma omp simd
  for (int64_t j = 0; j < cols; ++j) y[j] *= scale;
}

// dx = y * (dy - sum(dy * y))
template <class T>
void backward_row(const T* dy, const T* y, T* dx, int64_t cols) {
  const T dot = static_cast<T>(sum_in_pieces(y, cols, [dy, y](const T* piece, int64_t n) {
    const T* other = dy + (piece - y);
    T s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < n; ++j) s += other[j] * piece[j];
    return s;
  }));
#pragma omp simd
  for (int64_t j = 0; j < cols; ++j) dx[j] = y[j] * (dy[j] - dot);
}
}  // namespace

template <class T>
void softmax_forward(const SoftmaxForward<T>& a) {
  parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      forward_row(a.x + row_offset(r, a.cols), a.y + row_offset(r, a.cols), a.cols);
  });
}

template <class T>
void softmax_backward(const SoftmaxBackward<T>& a) {
  parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t at = row_offset(r, a.cols);
      backward_row(a.dy + at, a.y + at, a.dx + at, a.cols);
    }
  });
}

template void softmax_forward(const SoftmaxForward<float>&);
template void softmax_forward(const SoftmaxForward<double>&);
template void softmax_backward(const SoftmaxBackward<float>&);
template void softmax_backward(const SoftmaxBackward<double>&);

}  // namespace cbwc::cpu
