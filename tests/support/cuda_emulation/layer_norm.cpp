#include "tests/support/cuda_emulation/emulation.h"
#include "tests/support/cuda_emulation/kernels.h"

// The kernels' namespace gets another name: cbwc::cuda is taken by what core was built with.
#define cuda emulated
#include "core/kernels/cuda/layer_norm.cu"
