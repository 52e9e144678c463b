// The CUDA kernels compiled with g++ and run by the emulation, on host pointers.
#pragma once
#include "core/kernels/layer_norm.h"
#include "core/kernels/rms_norm.h"

namespace cbwc::emulated {
template <class T>
void layer_norm_forward(const LayerNormForward<T>& a);
template <class T>
void layer_norm_backward(const LayerNormBackward<T>& a);
template <class T>
void rms_norm_forward(const RmsNormForward<T>& a);
template <class T>
void rms_norm_backward(const RmsNormBackward<T>& a);
}  // namespace cbwc::emulated
