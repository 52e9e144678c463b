// OpenBLAS behind one small file: start-up (kernel choice, re-exec, self-check), threads, and the
// matrix product on raw pointers. core/kernels/cpu/blas.cpp is the only file that includes cblas.h.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cbwc {

// Call first in main(). Starts the program once more where that sets what a library reads only as
// it loads (restart_variables), then checks products against a plain loop: Error when they are
// wrong.
void blas_startup(char** argv);

// What a second start would set, never what the user has set: OPENBLAS_CORETYPE, when OpenBLAS
// picked kernels slower than the CPU allows. Empty: go on.
using Environment = std::function<const char*(const char* name)>;  // std::getenv, or a test's
using Variables = std::vector<std::pair<std::string, std::string>>;
Variables restart_variables(const std::string& kernels, int cpu_bits, const Environment& get);

// One product C (m,n) = A (m,k) B (k,n), row-major, against a plain loop in double; Error when it
// is off by more than 1e-5 of the largest element (cases.md P67 d).
using Product =
    std::function<void(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c)>;
void check_product(const Product& product, const std::string& kernels);

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
