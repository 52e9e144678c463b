#include "core/kernels/conv2d.h"

#include <algorithm>
#include <vector>

#include "core/kernels/blas.h"
#include "core/parallel.h"

namespace cbwc::cpu {
namespace {

// What the loops need of the sizes of one sample and group.
struct Patches {
  explicit Patches(const Conv2dSizes& s)
      : sizes(s),
        in(s.in / s.groups),
        out(s.out / s.groups),
        rows(in * s.kernel_h * s.kernel_w),
        places(s.out_height() * s.out_width()) {}
  // Columns equal to the image itself: nothing to lay out.
  bool direct() const {
    return sizes.kernel_h == 1 && sizes.kernel_w == 1 && sizes.stride == 1 && sizes.padding == 0;
  }
  const Conv2dSizes sizes;
  const int64_t in, out;       // channels of one group
  const int64_t rows, places;  // of the columns (in kernel_h kernel_w, out_height out_width)
};

// The output columns [first, last) whose input column q * stride - padding + j lies in the image.
struct Span {
  int64_t first, last;
};
Span inside(int64_t j, int64_t extent, int64_t outputs, int64_t stride, int64_t padding) {
  const int64_t low = padding - j, high = extent + padding - j;  // low <= q stride < high
  const int64_t first = low > 0 ? (low + stride - 1) / stride : 0;
  const int64_t last = high > 0 ? std::min(outputs, (high + stride - 1) / stride) : 0;
  return {std::min(first, last), last};
}

// columns[(c, i, j), (p, q)] = x[c, p stride - padding + i, q stride - padding + j], 0 outside
template <class T>
void lay_out(const T* x, T* columns, const Patches& a) {
  const Conv2dSizes& s = a.sizes;
  const int64_t oh = s.out_height(), ow = s.out_width(), kernel = s.kernel_h * s.kernel_w;
  parallel_for(a.rows, std::max<int64_t>(1, 16384 / a.places), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t c = row / kernel, i = row % kernel / s.kernel_w, j = row % s.kernel_w;
      const Span span = inside(j, s.width, ow, s.stride, s.padding);
      for (int64_t p = 0; p < oh; ++p) {
        T* to = columns + row * a.places + p * ow;
        const int64_t h = p * s.stride - s.padding + i;
        if (h < 0 || h >= s.height) {
          std::fill(to, to + ow, T(0));
          continue;
        }
        const T* from = x + (c * s.height + h) * s.width - s.padding + j;
        std::fill(to, to + span.first, T(0));
        for (int64_t q = span.first; q < span.last; ++q) to[q] = from[q * s.stride];
        std::fill(to + span.last, to + ow, T(0));
      }
    }
  });
}

// dx[c, ...] += the columns' gradients, each back at its place; a task owns whole channels.
template <class T>
void gather(const T* columns, T* dx, const Patches& a) {
  const Conv2dSizes& s = a.sizes;
  const int64_t oh = s.out_height(), ow = s.out_width(), kernel = s.kernel_h * s.kernel_w;
  const int64_t grain = std::max<int64_t>(1, 16384 / (kernel * a.places));
  parallel_for(a.in, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * kernel; row < end * kernel; ++row) {
      const int64_t c = row / kernel, i = row % kernel / s.kernel_w, j = row % s.kernel_w;
      const Span span = inside(j, s.width, ow, s.stride, s.padding);
      for (int64_t p = 0; p < oh; ++p) {
        const int64_t h = p * s.stride - s.padding + i;
        if (h < 0 || h >= s.height) continue;
        const T* from = columns + row * a.places + p * ow;
        T* to = dx + (c * s.height + h) * s.width - s.padding + j;
        for (int64_t q = span.first; q < span.last; ++q) to[q * s.stride] += from[q];
      }
    }
  });
}

template <class T>
void clear(T* x, bool accumulate, int64_t n) {
  if (x != nullptr && !accumulate) std::fill(x, x + n, T(0));
}

// db[o] = sum of dy over samples and places, each channel by one task and in double
template <class T>
void bias_gradient(const Conv2dBackward<T>& a, int64_t places) {
  const Conv2dSizes& s = a.sizes;
  parallel_for(s.out, 16, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      double sum = 0;
      for (int64_t n = 0; n < s.batch; ++n) {
        const T* dy = a.dy + (n * s.out + o) * places;
        for (int64_t q = 0; q < places; ++q) sum += static_cast<double>(dy[q]);
      }
      a.db[o] += static_cast<T>(sum);
    }
  });
}

}  // namespace

// y = w columns + b
template <class T>
void conv2d_forward(const Conv2dForward<T>& a) {
  const Conv2dSizes& s = a.sizes;
  const Patches g(s);
  std::vector<T> columns(g.direct() ? 0 : static_cast<size_t>(g.rows * g.places));
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t k = 0; k < s.groups; ++k) {
      const T* x = a.x + (n * s.in + k * g.in) * s.height * s.width;
      T* y = a.y + (n * s.out + k * g.out) * g.places;
      if (!g.direct()) lay_out(x, columns.data(), g);
      if (a.b != nullptr) {
        const T* b = a.b + k * g.out;
        for (int64_t o = 0; o < g.out; ++o)
          std::fill(y + o * g.places, y + (o + 1) * g.places, b[o]);
      }
      gemm<T>(false, false, g.out, g.places, g.rows, T(1), a.w + k * g.out * g.rows, g.rows,
              g.direct() ? x : columns.data(), g.places, a.b != nullptr ? T(1) : T(0), y, g.places);
    }
  }
}

// dw = dy columns^T, summed over the samples; dcolumns = w^T dy, gathered into dx
template <class T>
void conv2d_backward(const Conv2dBackward<T>& a) {
  const Conv2dSizes& s = a.sizes;
  const Patches g(s);
  clear(a.dx, a.accumulate_dx, s.batch * s.in * s.height * s.width);
  clear(a.dw, a.accumulate_dw, s.out * g.rows);
  clear(a.db, a.accumulate_db, s.out);
  if (a.db != nullptr) bias_gradient(a, g.places);
  std::vector<T> columns(g.direct() ? 0 : static_cast<size_t>(g.rows * g.places));
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t k = 0; k < s.groups; ++k) {
      const int64_t image = (n * s.in + k * g.in) * s.height * s.width;
      const T* dy = a.dy + (n * s.out + k * g.out) * g.places;
      if (a.dw != nullptr) {
        if (!g.direct()) lay_out(a.x + image, columns.data(), g);
        gemm<T>(false, true, g.out, g.rows, g.places, T(1), dy, g.places,
                g.direct() ? a.x + image : columns.data(), g.places, T(1),
                a.dw + k * g.out * g.rows, g.rows);
      }
      if (a.dx == nullptr) continue;
      T* to = g.direct() ? a.dx + image : columns.data();
      gemm<T>(true, false, g.rows, g.places, g.out, T(1), a.w + k * g.out * g.rows, g.rows, dy,
              g.places, g.direct() ? T(1) : T(0), to, g.places);
      if (!g.direct()) gather(columns.data(), a.dx + image, g);
    }
  }
}

template void conv2d_forward(const Conv2dForward<float>&);
template void conv2d_forward(const Conv2dForward<double>&);
template void conv2d_backward(const Conv2dBackward<float>&);
template void conv2d_backward(const Conv2dBackward<double>&);

}  // namespace cbwc::cpu
