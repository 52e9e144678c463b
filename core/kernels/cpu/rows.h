// Rows of a row-major matrix: where one starts, and how many make a task.
#pragma once
#include <algorithm>
#include <cstdint>

namespace cbwc::cpu {

// In 64 bits whatever the caller counts in: the product of two 32-bit numbers ends at 2^31, which a
// row of a large tensor is beyond (cases.md P17).
constexpr int64_t row_offset(int64_t row, int64_t cols) { return row * cols; }

// Tasks of some 16,000 elements: long against the cost of handing one out.
constexpr int64_t row_grain(int64_t cols) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, cols));
}

}  // namespace cbwc::cpu
