#include "core/kernels/matmul.h"

#include "core/kernels/blas.h"

namespace cbwc::cpu {

template <class T>
void matmul(const Matmul<T>& a) {
  const int64_t lda = a.transpose_a ? a.m : a.k, ldb = a.transpose_b ? a.k : a.n;
  for (int64_t i = 0; i < a.batch; ++i)
    gemm<T>(a.transpose_a, a.transpose_b, a.m, a.n, a.k, T(1), a.a + i * a.stride_a, lda,
            a.b + i * a.stride_b, ldb, a.accumulate ? T(1) : T(0), a.c + i * a.stride_c, a.n);
}
template void matmul<float>(const Matmul<float>&);
template void matmul<double>(const Matmul<double>&);

}  // namespace cbwc::cpu
