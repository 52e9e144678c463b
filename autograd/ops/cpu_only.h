// For ops that have only a CPU kernel.
#pragma once
#include "core/tensor.h"

namespace cbwc {

inline void require_cpu(const Tensor& x, const char* who) {
  CBWC_CHECK(x.device() == Device::cpu, who, ": no CUDA kernel yet; move the tensor to the CPU");
}

}  // namespace cbwc
