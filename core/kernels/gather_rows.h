// Rows picked by id, the same ids for every entry of a batch; the backward adds each row's
// gradients in the order of the ids.
#pragma once
#include "core/dtype.h"

namespace cbwc {

template <class T>
struct GatherRows {
  const T* x;          // (B, R, C)
  const int32_t* ids;  // (N), each in [-1, R), checked by the caller; -1: a row of zeros
  T* y;                // (B, N, C)
  int64_t B, R, N, C;
};

template <class T>
struct GatherRowsBackward {
  const T* dy;         // (B, N, C)
  const int32_t* ids;  // (N)
  T* dx;               // (B, R, C)
  int64_t B, R, N, C;
  bool accumulate;  // add to dx; else every row is written
};

namespace cpu {
template <class T>
void gather_rows_forward(const GatherRows<T>& a);
template <class T>
void gather_rows_backward(const GatherRowsBackward<T>& a);
}  // namespace cpu

}  // namespace cbwc
