// Strided, type-converting copy on the CPU: what Tensor::copy_from, contiguous and to are made of.
#pragma once
#include "core/tensor.h"

namespace cbwc::cpu {

// to and from have the same shape; both lie on the CPU; strides and dtypes may differ.
void copy(const Tensor& to, const Tensor& from);

}  // namespace cbwc::cpu
