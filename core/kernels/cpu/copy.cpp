#include "core/kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "core/parallel.h"

namespace cbwc::cpu {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements per chunk

// Axes merged where both sides allow it: fewer loops, longer inner runs.
struct Loops {
  Shape shape, to, from;
};

Loops merge_axes(const Tensor& to, const Tensor& from) {
  Loops l;
  for (int i = 0; i < to.rank(); ++i) {
    const int64_t n = to.shape()[i], st = to.strides()[i], sf = from.strides()[i];
    if (n == 1) continue;
    if (!l.shape.empty() && l.to.back() == st * n && l.from.back() == sf * n) {
      l.shape.back() *= n;
      l.to.back() = st;
      l.from.back() = sf;
    } else {
      l.shape.push_back(n);
      l.to.push_back(st);
      l.from.push_back(sf);
    }
  }
  if (l.shape.empty()) l = {{1}, {1}, {1}};
  return l;
}

template <class T, class F>
void copy_row(T* to, int64_t st, const F* from, int64_t sf, int64_t n) {
  if constexpr (std::is_same_v<T, F>) {
    if (st == 1 && sf == 1) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
      return;
    }
  }
  for (int64_t i = 0; i < n; ++i) to[i * st] = static_cast<T>(from[i * sf]);
}

// (rows, cols) read down its columns: in square tiles, so that every cache line is used whole.
template <class T, class F>
void copy_transposed(T* to, const F* from, const Loops& l) {
  constexpr int64_t kTile = 32;
  const int64_t rows = l.shape[0], cols = l.shape[1], st = l.to[0], sf = l.from[1];
  parallel_for((rows + kTile - 1) / kTile, std::max<int64_t>(1, kGrain / (kTile * cols)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin * kTile; r < std::min(rows, end * kTile); r += kTile)
                   for (int64_t c = 0; c < cols; c += kTile)
                     for (int64_t i = r; i < std::min(rows, r + kTile); ++i)
                       for (int64_t j = c; j < std::min(cols, c + kTile); ++j)
                         to[i * st + j] = static_cast<T>(from[i + j * sf]);
               });
}

template <class T, class F>
void copy_typed(T* to, const F* from, const Loops& l) {
  const int last = static_cast<int>(l.shape.size()) - 1;
  const int64_t n = l.shape[last];
  if (last == 0) {
    return parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      copy_row(to + begin * l.to[0], l.to[0], from + begin * l.from[0], l.from[0], end - begin);
    });
  }
  if (last == 1 && l.to[1] == 1 && l.from[0] == 1) return copy_transposed(to, from, l);
  int64_t rows = 1;
  for (int i = 0; i < last; ++i) rows *= l.shape[i];
  parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t rest = r, ot = 0, of = 0;
      for (int i = last - 1; i >= 0; --i) {
        const int64_t k = rest % l.shape[i];
        rest /= l.shape[i];
        ot += k * l.to[i];
        of += k * l.from[i];
      }
      copy_row(to + ot, l.to[last], from + of, l.from[last], n);
    }
  });
}

}  // namespace

void copy(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  const Loops l = merge_axes(to, from);
  dispatch_all(to.dtype(), [&](auto t) {
    using T = decltype(t);
    dispatch_all(from.dtype(), [&](auto f) {
      using F = decltype(f);
      copy_typed(to.data<T>(), static_cast<const F*>(from.data<F>()), l);
    });
  });
}

}  // namespace cbwc::cpu
