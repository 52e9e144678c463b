// Scaled dot-product attention, blockwise: O = dropout(softmax(scale Q K^T + bias + ALiBi + mask))
// V for every (b, h). Only the log-sum-exp of each row is kept, never a (Tq, Tk) matrix; the
// backward recomputes blocks. A row with no key left gives zeros and no gradient. The last axis (D)
// is contiguous everywhere.
#pragma once
#include "core/dtype.h"

namespace cbwc {

// A (B, H, T, D) view; element strides.
template <class T>
struct HeadView {
  T* data;
  int64_t b, h, t;  // strides
};

struct AttentionShape {
  int64_t B, H, Tq, Tk, D;
  double scale;
  bool causal;              // query i sees keys j <= i + Tk - Tq
  const int32_t* key_mask;  // (B, Tk), 0 = not seen; null: all seen
  double dropout = 0;       // of the probabilities
  uint64_t dropout_key = 0, dropout_block = 0;
  // (windows, Tk) with Tq = Tk; of batch row b the row b % windows: tokens see each other only
  // within one group. null: no groups
  const int32_t* groups = nullptr;
  int64_t windows = 1;
  // (H): key j of query i gets slope (j - (i + Tk - Tq)); null: none
  const double* alibi_slopes = nullptr;
};

// Philox blocks that the probabilities' dropout uses: every row starts at a block of its own.
inline int64_t attention_dropout_blocks(const AttentionShape& s) {
  return s.B * s.H * s.Tq * ((s.Tk + 3) / 4);
}

template <class T>
struct AttentionForward {
  AttentionShape shape;
  HeadView<const T> q, k, v;
  HeadView<T> o;            // (B, H, Tq, D), written
  T* lse;                   // (B, H, Tq), -inf for a row with no key
  double* max_logit;        // the largest seen logit; null: not wanted
  const T* bias = nullptr;  // (H, Tq, Tk), added to the scaled scores; null: none
};

template <class T>
struct AttentionBackward {
  AttentionShape shape;
  HeadView<const T> q, k, v, o, dout;
  const T* lse;            // (B, H, Tq)
  HeadView<T> dq, dk, dv;  // null data: not wanted
  bool accumulate_dq, accumulate_dk, accumulate_dv;
  const T* bias = nullptr;
  T* dbias = nullptr;  // (H, Tq, Tk), summed over B in a fixed order; null: not wanted
  bool accumulate_dbias = false;
};

namespace cpu {
template <class T>
void attention_forward(const AttentionForward<T>& a);
template <class T>
void attention_backward(const AttentionBackward<T>& a);
}  // namespace cpu

}  // namespace cbwc
