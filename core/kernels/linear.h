// The bias side of a Linear layer: the products themselves are matmul's.
#pragma once
#include "core/dtype.h"

namespace cbwc::cpu {

// Every row of y (rows, cols) becomes bias (cols): the product is then added onto it.
template <class T>
void fill_rows(T* y, const T* bias, int64_t rows, int64_t cols);

// db (cols) = sum over the rows of dy (rows, cols), or added to when accumulate; the same bits for
// any thread count.
template <class T>
void column_sums(const T* dy, T* db, bool accumulate, int64_t rows, int64_t cols);

}  // namespace cbwc::cpu
