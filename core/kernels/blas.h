// OpenBLAS behind one small file: start-up (kernel choice, re-exec, self-check), threads, and the
// matrix product on raw pointers. core/kernels/cpu/blas.cpp is the only file that includes cblas.h.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cbwc {

// Call first in main(). Sees which kernels OpenBLAS picked; if they are slower than the CPU allows
// and the user has not set OPENBLAS_CORETYPE, re-executes the program once with it set. Then checks
// products against a plain loop and throws Error when they are wrong (cases.md P67 d).
void blas_startup(char** argv);

struct BlasInfo {
  std::string library, kernels, config;  // version, core name, the library's own config line
  bool openmp = false;                   // built with OpenMP
  bool user_set = false;                 // OPENBLAS_CORETYPE came from the user's environment
  std::vector<std::string> warnings;     // one line each, for `cbwc info` and the start of a run
};
BlasInfo blas_info();

// A product done since start_gemm_log(): C (m,n) = op(A) (m,k) op(B) (k,n). For the GEMM floor.
struct GemmShape {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  int64_t calls;
};
void start_gemm_log();
std::vector<GemmShape> stop_gemm_log();  // distinct shapes in first-seen order

namespace cpu {
// C = alpha op(A) op(B) + beta C, row-major; lda etc. are the stored row lengths. beta = 0 never
// reads C; k = 0 gives beta C (cases.md P67 b). T is float or double.
template <class T>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);
void set_blas_threads(int threads);
}  // namespace cpu

}  // namespace cbwc
