// Kernels that have no CUDA version in any build: what a GPU tensor gets is this error.
#include "core/check.h"
#include "core/kernels/adamw.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/reduce.h"

namespace cbwc::cuda {
namespace {
[[noreturn]] void cpu_only(const char* kernel) {
  detail::fail(kernel, ": there is no CUDA kernel for this operation yet; it runs on the CPU");
}
}  // namespace

// clang-format off
template <class T> void binary(const Binary<T>&) { cpu_only("elementwise"); }
template <class T> void add_into(T*, const T*, int64_t) { cpu_only("add_into"); }
template <class T> void axpy(T*, double, const T*, int64_t) { cpu_only("axpy"); }
template <class T> void scale(T*, double, const T*, int64_t) { cpu_only("scale"); }
template <class T> void reduce_forward(const ReduceForward<T>&) { cpu_only("reduce"); }
template <class T> void reduce_backward(const ReduceBackward<T>&) { cpu_only("reduce"); }
template <class T> void adamw_update(const AdamWUpdate<T>&) { cpu_only("adamw"); }
template <class T> void sgd_update(const SgdUpdate<T>&) { cpu_only("sgd"); }
template <class T> double sum_of_squares(const T*, int64_t) { cpu_only("sum_of_squares"); }

#define CBWC_INSTANTIATE(T)                                      \
  template void binary<T>(const Binary<T>&);                     \
  template void add_into<T>(T*, const T*, int64_t);              \
  template void axpy<T>(T*, double, const T*, int64_t);          \
  template void scale<T>(T*, double, const T*, int64_t);         \
  template void reduce_forward<T>(const ReduceForward<T>&);      \
  template void reduce_backward<T>(const ReduceBackward<T>&);    \
  template void adamw_update<T>(const AdamWUpdate<T>&);          \
  template void sgd_update<T>(const SgdUpdate<T>&);              \
  template double sum_of_squares<T>(const T*, int64_t);
// clang-format on
CBWC_INSTANTIATE(float)
CBWC_INSTANTIATE(double)
#undef CBWC_INSTANTIATE

}  // namespace cbwc::cuda
