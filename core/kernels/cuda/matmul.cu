// Products are cuBLAS's. Float32 stays float32: the default math mode, never TF32.
#include "core/kernels/matmul.h"

#include <cublas_v2.h>

#include "core/check.h"

namespace cbwc::cuda {
namespace {

void check(cublasStatus_t status) {
  CBWC_CHECK(status == CUBLAS_STATUS_SUCCESS,
             "matmul: cuBLAS failed: ", cublasGetStatusString(status));
}

// One handle for each host thread, kept until the thread ends: making one takes milliseconds.
class Handle {
 public:
  Handle() {
    check(cublasCreate(&handle_));
    check(cublasSetMathMode(handle_, CUBLAS_DEFAULT_MATH));
  }
  ~Handle() { cublasDestroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cublasHandle_t get() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

cublasHandle_t handle() {
  static thread_local Handle instance;
  return instance.get();
}

// cuBLAS is column-major: a row-major C = op(A) op(B) is C' = op(B)' op(A)' to it.
template <class T, class Gemm>
void multiply(Gemm gemm, const Matmul<T>& a, const T* first, const T* second, T* out,
              int64_t batch) {
  const T one = 1, beta = a.accumulate ? T(1) : T(0);
  const auto leading = [](int64_t n) { return n > 0 ? n : 1; };
  check(gemm(handle(), a.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
             a.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, a.n, a.m, a.k, &one, second,
             leading(a.transpose_b ? a.k : a.n), a.stride_b, first,
             leading(a.transpose_a ? a.m : a.k), a.stride_a, &beta, out, leading(a.n), a.stride_c,
             batch));
}

template <class T, class Gemm>
void run(Gemm gemm, const Matmul<T>& a) {
  if (a.m == 0 || a.n == 0 || a.batch == 0) return;
  if (a.batch == 1 || a.stride_c != 0) return multiply(gemm, a, a.a, a.b, a.c, a.batch);
  // All of the batch goes to one C: one after the other, as cuBLAS's batches may run at once.
  for (int64_t i = 0; i < a.batch; ++i)
    multiply(gemm, a, a.a + i * a.stride_a, a.b + i * a.stride_b, a.c, 1);
}

}  // namespace

template <>
void matmul(const Matmul<float>& a) {
  run(cublasSgemmStridedBatched_64, a);
}
template <>
void matmul(const Matmul<double>& a) {
  run(cublasDgemmStridedBatched_64, a);
}

}  // namespace cbwc::cuda
