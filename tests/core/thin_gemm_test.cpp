// A few rows times a transposed matrix: every size of tile, equal bits for any company and threads.
#include <cmath>
#include <vector>

#include "core/kernels/blas.h"
#include "core/kernels/cpu/thin_gemm.h"
#include "core/parallel.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

constexpr double kFloat64 = 1e-12;  // of sums of up to 800 products of order 1
constexpr double kFloat32 = 1e-4;

template <class T>
std::vector<T> numbers(int64_t n, double step) {
  std::vector<T> out;
  for (int64_t i = 0; i < n; ++i)
    out.push_back(static_cast<T>(0.3 + std::sin(step * static_cast<double>(i) + step)));
  return out;
}

template <class T>
void check_product(int64_t m, int64_t n, int64_t k, bool add, double tolerance) {
  INFO(m << " x " << n << " x " << k << (add ? ", added" : ""));
  const int64_t lda = k + 3, ldb = k + 1, ldc = n + 2;
  const std::vector<T> a = numbers<T>(m * lda, 0.37), b = numbers<T>(n * ldb, 0.11);
  std::vector<T> c = numbers<T>(m * ldc, 0.7);
  if (!add)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = static_cast<T>(NAN);  // not read
  const std::vector<T> before = c;
  cpu::thin_gemm<T>({m, n, k, a.data(), lda, b.data(), ldb, c.data(), ldc, add});
  double worst = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = add ? static_cast<double>(before[i * ldc + j]) : 0;
      for (int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(a[i * lda + l]) * static_cast<double>(b[j * ldb + l]);
      const double error = std::abs(sum - static_cast<double>(c[i * ldc + j]));
      if (error > worst || std::isnan(error)) worst = error;
    }
    for (int64_t j = n; j < ldc; ++j) CHECK(c[i * ldc + j] == before[i * ldc + j]);
  }
  CHECK(worst <= tolerance);
}

}  // namespace

TEST_CASE("thin_gemm equals a plain loop for every number of rows") {
  for (int64_t m = 1; m <= cpu::kThinRows; ++m) {
    for (const int64_t n : {1, 7, 24, 53}) {
      for (const int64_t k : {1, 5, 16, 33, 800}) {
        check_product<double>(m, n, k, k % 2 == 1, kFloat64);
        check_product<float>(m, n, k, k % 2 == 0, kFloat32);
      }
    }
  }
}

TEST_CASE("thin_gemm: a row's bits depend neither on the other rows nor on the threads") {
  const int64_t n = 500, k = 333;  // several chunks
  const std::vector<float> a = numbers<float>(8 * k, 0.37), b = numbers<float>(n * k, 0.11);
  std::vector<float> all(8 * n), one(n);
  const int before = threads();
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    cpu::thin_gemm<float>({8, n, k, a.data(), k, b.data(), k, all.data(), n, false});
    for (int64_t i = 0; i < 8; ++i) {
      const int64_t rows = 1 + i % 3;
      std::vector<float> few(static_cast<size_t>(rows * n));
      if (i + rows > 8) continue;
      cpu::thin_gemm<float>({rows, n, k, a.data() + i * k, k, b.data(), k, few.data(), n, false});
      CHECK(std::equal(few.begin(), few.end(), all.begin() + i * n));
    }
    if (count == 1) one.assign(all.begin(), all.begin() + n);
    CHECK(std::equal(one.begin(), one.end(), all.begin()));
  }
  set_threads(before);
}

TEST_CASE("gemm takes a few rows there, with the same result and in its log") {
  const int64_t m = 3, n = 40, k = 70;
  const std::vector<double> a = numbers<double>(m * k, 0.37), b = numbers<double>(n * k, 0.11);
  std::vector<double> here(m * n, 1.0), thin(m * n, 1.0);
  start_gemm_log();
  cpu::gemm<double>(false, true, m, n, k, 1.0, a.data(), k, b.data(), k, 1.0, here.data(), n);
  CHECK(stop_gemm_log().size() == 1);
  cpu::thin_gemm<double>({m, n, k, a.data(), k, b.data(), k, thin.data(), n, true});
  CHECK(here == thin);
}
