#include "core/kernels/blas.h"

#include <cblas.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "core/check.h"
#include "core/kernels/cpu/thin_gemm.h"
#include "core/parallel.h"

extern "C" {
char* openblas_get_corename();
char* openblas_get_config();
void openblas_set_num_threads(int);
}

namespace cbwc {
namespace {

// Set for the second start, so that it happens once, to the names of what it set; nothing that a
// user would configure.
constexpr const char* kRestarted = "CBWC_RESTARTED";

// How wide the vectors of a kernel family are: 512, 256 or 128 bits.
int kernel_width(const std::string& core) {
  for (const char* name : {"SkylakeX", "Cooperlake", "SapphireRapids"})
    if (core == name) return 512;
  for (const char* name : {"Haswell", "Zen", "Excavator"})
    if (core == name) return 256;
  return 128;
}

int cpu_width() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return 512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 256;
  return 128;
#else
  return 0;  // elsewhere the library's own choice stands
#endif
}

std::mutex log_mutex;
bool logging = false;
std::vector<GemmShape> gemm_log;

void log_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k) {
  std::lock_guard lock(log_mutex);
  for (GemmShape& s : gemm_log) {
    if (s.m == m && s.n == n && s.k == k && s.transpose_a == ta && s.transpose_b == tb) {
      ++s.calls;
      return;
    }
  }
  gemm_log.push_back({m, n, k, ta, tb, 1});
}

int to_int(int64_t n) {
  CBWC_CHECK(n >= 0 && n <= INT32_MAX, "gemm: the extent ", n, " is beyond BLAS's 32 bits");
  return static_cast<int>(n);
}

}  // namespace

Variables restart_variables(const std::string& kernels, int cpu_bits, const Environment& get) {
  Variables set;
  if (get(kRestarted) != nullptr) return set;
  if (kernel_width(kernels) < cpu_bits && get("OPENBLAS_CORETYPE") == nullptr)
    set.emplace_back("OPENBLAS_CORETYPE", cpu_bits == 512 ? "SkylakeX" : "Haswell");
  return set;
}

void check_product(const Product& product, const std::string& kernels) {
  constexpr double kAllowed = 1e-5;  // float32 sums of 65 products are off by some 1e-7
  const int64_t m = 129, n = 257, k = 65;
  std::vector<float> a(m * k), b(k * n), c(m * n, NAN);
  for (int64_t i = 0; i < m * k; ++i) a[i] = static_cast<float>(std::sin(0.37 * double(i) + 1));
  for (int64_t i = 0; i < k * n; ++i) b[i] = static_cast<float>(std::cos(0.11 * double(i)));
  product(m, n, k, a.data(), b.data(), c.data());
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += double(a[i * k + l]) * double(b[l * n + j]);
      const double error = std::abs(sum - double(c[i * n + j]));
      if (error > worst || std::isnan(error)) worst = error;  // a NaN stays
      largest = std::max(largest, std::abs(sum));
    }
  }
  CBWC_CHECK(worst <= kAllowed * largest, "OpenBLAS computes wrong products on this machine (",
             "kernels ", kernels, ", relative error ", worst / largest,
             "): set OPENBLAS_CORETYPE to another kernel, for example Haswell");
}

void blas_startup(char** argv) {
  const std::string kernels = openblas_get_corename();
  const Variables variables =
      restart_variables(kernels, cpu_width(), [](const char* name) { return std::getenv(name); });
  if (!variables.empty()) {
    std::string names;
    for (const auto& [name, value] : variables) {
      names += name + " ";
      setenv(name.c_str(), value.c_str(), 0);
    }
    setenv(kRestarted, names.c_str(), 1);
    // Only returns when it fails; then the slow kernels serve, and blas_info() says so.
    execv("/proc/self/exe", argv);
  }
  check_product(
      [](int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c) {
        cpu::gemm<float>(false, false, m, n, k, 1.f, a, k, b, n, 0.f, c, n);
      },
      kernels);
}

BlasInfo blas_info() {
  BlasInfo info;
  info.config = openblas_get_config();
  info.kernels = openblas_get_corename();
  info.library = info.config.substr(0, info.config.find(' ', info.config.find(' ') + 1));
  info.openmp = info.config.find("USE_OPENMP") != std::string::npos;
  const char* chosen = std::getenv("OPENBLAS_CORETYPE");
  const char* ours = std::getenv(kRestarted);
  info.user_set =
      chosen != nullptr &&
      (ours == nullptr || std::string(ours).find("OPENBLAS_CORETYPE") == std::string::npos);
  if (!info.openmp)
    info.warnings.emplace_back(
        "OpenBLAS is not the OpenMP build: products will fight with our threads for the cores "
        "(apt-get install libopenblas-openmp-dev, then build again)");
  if (kernel_width(info.kernels) < cpu_width()) {
    const std::string better = cpu_width() == 512 ? "SkylakeX" : "Haswell";
    info.warnings.push_back(
        info.user_set
            ? "OPENBLAS_CORETYPE=" + std::string(chosen) +
                  " is set in the environment; this CPU could run the faster kernels of " + better
            : "OpenBLAS runs its " + info.kernels + " kernels; " + better +
                  " would be faster on this CPU");
  }
  return info;
}

void start_gemm_log() {
  std::lock_guard lock(log_mutex);
  gemm_log.clear();
  logging = true;
}

std::vector<GemmShape> stop_gemm_log() {
  std::lock_guard lock(log_mutex);
  logging = false;
  return std::move(gemm_log);
}

namespace cpu {

template <class T>
void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda,
          const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (logging) log_gemm(ta, tb, m, n, k);
  if (k == 0) {
    // Not left to the library: some builds read C although beta is 0.
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = beta == T(0) ? T(0) : beta * c[i * ldc + j];
    return;
  }
  if (!ta && tb && m <= kThinRows && alpha == T(1) && (beta == T(0) || beta == T(1))) {
    thin_gemm<T>({.m = m,
                  .n = n,
                  .k = k,
                  .a = a,
                  .lda = lda,
                  .b = b,
                  .ldb = ldb,
                  .c = c,
                  .ldc = ldc,
                  .add = beta == T(1)});
    return;
  }
  const auto op_a = ta ? CblasTrans : CblasNoTrans, op_b = tb ? CblasTrans : CblasNoTrans;
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, op_a, op_b, to_int(m), to_int(n), to_int(k), alpha, a, to_int(lda),
                b, to_int(ldb), beta, c, to_int(ldc));
  } else {
    cblas_dgemm(CblasRowMajor, op_a, op_b, to_int(m), to_int(n), to_int(k), alpha, a, to_int(lda),
                b, to_int(ldb), beta, c, to_int(ldc));
  }
}
template void gemm<float>(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,
                          const float*, int64_t, float, float*, int64_t);
template void gemm<double>(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,
                           const double*, int64_t, double, double*, int64_t);

void set_blas_threads(int threads) { openblas_set_num_threads(threads); }

}  // namespace cpu
}  // namespace cbwc
