// Rows of a table, picked by id; `centered` subtracts each row's mean: the CBWC embedding
// (method.md 3).
#pragma once
#include "core/dtype.h"

namespace cbwc {

template <class T, class I>
struct EmbeddingForward {
  const T* table;  // (vocab, cols)
  const I* ids;    // (rows), each in [0, vocab): checked by the caller
  T* y;            // (rows, cols)
  int64_t rows, cols;
  bool centered;
};

template <class T, class I>
struct EmbeddingBackward {
  const T* dy;   // (rows, cols)
  const I* ids;  // (rows)
  T* dtable;     // (vocab, cols)
  int64_t rows, cols, vocab;
  bool centered;
  bool accumulate;  // add to dtable; else it is zeroed first
};

namespace cpu {
template <class T, class I>
void embedding_forward(const EmbeddingForward<T, I>& a);
template <class T, class I>
void embedding_backward(const EmbeddingBackward<T, I>& a);  // ids in order: the same bits always
}  // namespace cpu

}  // namespace cbwc
