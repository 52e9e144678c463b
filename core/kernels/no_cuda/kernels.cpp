// Throwing stubs for a build without CUDA: the contents list of the backend's kernels.
#include "core/check.h"
#include "core/kernels/layer_norm.h"
#include "core/kernels/matmul.h"
#include "core/kernels/rms_norm.h"

namespace cbwc::cuda {
namespace {
[[noreturn]] void absent(const char* kernel) {
  detail::fail(kernel, ": this build has no CUDA: build with cmake --preset cuda");
}
}  // namespace

// clang-format off
template <class T> void layer_norm_forward(const LayerNormForward<T>&) { absent("layer_norm"); }
template <class T> void layer_norm_backward(const LayerNormBackward<T>&) { absent("layer_norm"); }
template <class T> void rms_norm_forward(const RmsNormForward<T>&) { absent("rms_norm"); }
template <class T> void rms_norm_backward(const RmsNormBackward<T>&) { absent("rms_norm"); }
template <class T> void matmul(const Matmul<T>&) { absent("matmul"); }

#define CBWC_INSTANTIATE(T)                                      \
  template void layer_norm_forward<T>(const LayerNormForward<T>&);   \
  template void layer_norm_backward<T>(const LayerNormBackward<T>&); \
  template void rms_norm_forward<T>(const RmsNormForward<T>&);       \
  template void rms_norm_backward<T>(const RmsNormBackward<T>&);     \
  template void matmul<T>(const Matmul<T>&);
// clang-format on
CBWC_INSTANTIATE(float)
CBWC_INSTANTIATE(double)
#undef CBWC_INSTANTIATE

}  // namespace cbwc::cuda
