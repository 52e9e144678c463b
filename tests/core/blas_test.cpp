#include "core/kernels/blas.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <map>

#include "core/check.h"
#include "core/parallel.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

// 8 x 8 ones times ones: every element is 8.
bool small_product_is_right() {
  std::vector<float> a(64, 1.f), c(64, NAN);
  cpu::gemm<float>(false, false, 8, 8, 8, 1.f, a.data(), 8, a.data(), 8, 0.f, c.data(), 8);
  for (float v : c)
    if (v != 8.f) return false;
  return true;
}

}  // namespace

TEST_CASE("gemm equals a plain loop in every combination of transposes") {
  const int64_t m = 5, n = 7, k = 3;
  for (int turns = 0; turns < 4; ++turns) {
    const bool ta = (turns & 1) != 0, tb = (turns & 2) != 0;
    std::vector<double> a(m * k), b(k * n), c(m * n, 0.5);
    for (int64_t i = 0; i < m * k; ++i) a[i] = std::sin(1.0 + static_cast<double>(i));
    for (int64_t i = 0; i < k * n; ++i) b[i] = std::cos(2.0 + static_cast<double>(i));
    cpu::gemm<double>(ta, tb, m, n, k, 2.0, a.data(), ta ? m : k, b.data(), tb ? k : n, 3.0,
                      c.data(), n);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double want = 1.5;
        for (int64_t l = 0; l < k; ++l)
          want += 2.0 * a[ta ? l * m + i : i * k + l] * b[tb ? j * k + l : l * n + j];
        CHECK(std::abs(c[i * n + j] - want) <= 1e-13);
      }
    }
  }
}

TEST_CASE("P67 a-c: after a fork, without an inner extent, inside an OpenMP region") {
  CHECK(small_product_is_right());
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(small_product_is_right() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));

  float c = NAN, unused = NAN;
  cpu::gemm<float>(false, false, 1, 1, 0, 1.f, &unused, 1, &unused, 1, 0.f, &c, 1);
  CHECK(c == 0.f);

  int right = 0;
#pragma omp parallel for reduction(+ : right)
  for (int i = 0; i < 16; ++i) right += small_product_is_right() ? 1 : 0;
  CHECK(right == 16);
}

TEST_CASE("P67 e: a factor of more than 11 bits keeps them all") {
  const float a = 1024.5f, b = 1;
  float c = NAN;
  cpu::gemm<float>(false, false, 1, 1, 1, 1.f, &a, 1, &b, 1, 0.f, &c, 1);
  CHECK(c == 1024.5f);
}

TEST_CASE("P67 d: a product that is wrong is refused at the start") {
  const Product right = [](int64_t m, int64_t n, int64_t k, const float* a, const float* b,
                           float* c) {
    cpu::gemm<float>(false, false, m, n, k, 1.f, a, k, b, n, 0.f, c, n);
  };
  CHECK_NOTHROW(check_product(right, "any"));
  // One element off by 1e-4 of the largest, the last one, or not a number.
  const auto spoilt = [&](int64_t at, float add) {
    return [&right, at, add](int64_t m, int64_t n, int64_t k, const float* a, const float* b,
                             float* c) {
      CHECK((m == 129 && n == 257 && k == 65));
      right(m, n, k, a, b, c);
      float largest = 0;
      for (int64_t i = 0; i < m * n; ++i) largest = std::max(largest, std::abs(c[i]));
      c[at] += add * largest;
    };
  };
  for (const int64_t at : {int64_t{0}, int64_t{129 * 257 - 1}}) {
    CHECK_THROWS_WITH(check_product(spoilt(at, 1e-4f), "SomeCore"),
                      ContainsSubstring("wrong products") && ContainsSubstring("SomeCore") &&
                          ContainsSubstring("OPENBLAS_CORETYPE"));
    CHECK_THROWS_AS(check_product(spoilt(at, NAN), "SomeCore"), Error);
    CHECK_NOTHROW(check_product(spoilt(at, 1e-6f), "SomeCore"));
  }
  // Nothing written at all: C was filled with NaN before.
  CHECK_THROWS_AS(
      check_product([](int64_t, int64_t, int64_t, const float*, const float*, float*) {},
                    "SomeCore"),
      Error);
}

TEST_CASE("what a second start sets, once and never over the user's") {
  const auto with = [](std::map<std::string, std::string> set) {
    return [set = std::move(set)](const char* name) {
      const auto found = set.find(name);
      return found == set.end() ? nullptr : found->second.c_str();
    };
  };
  const auto core = [](const char* name) { return std::pair{"OPENBLAS_CORETYPE", name}; };
  const auto none = with({});
  CHECK(restart_variables("Prescott", 512, none) == Variables{core("SkylakeX")});
  CHECK(restart_variables("Haswell", 512, none) == Variables{core("SkylakeX")});
  CHECK(restart_variables("Prescott", 256, none) == Variables{core("Haswell")});
  CHECK(restart_variables("Haswell", 256, none).empty());
  CHECK(restart_variables("SapphireRapids", 512, none).empty());
  CHECK(restart_variables("Unknown", 0, none).empty());  // not an x86 CPU
  CHECK(restart_variables("Prescott", 512, with({{"OPENBLAS_CORETYPE", "Prescott"}})).empty());
  CHECK(restart_variables("Prescott", 512, with({{"CBWC_RESTARTED", "x"}})).empty());
}

TEST_CASE("the gemm log counts distinct shapes in first-seen order") {
  start_gemm_log();
  small_product_is_right();
  float a = 2, c = 0;
  cpu::gemm<float>(true, false, 1, 1, 1, 1.f, &a, 1, &a, 1, 0.f, &c, 1);
  small_product_is_right();
  const std::vector<GemmShape> log = stop_gemm_log();
  REQUIRE(log.size() == 2);
  CHECK((log[0].m == 8 && log[0].calls == 2 && !log[0].transpose_a));
  CHECK((log[1].m == 1 && log[1].calls == 1 && log[1].transpose_a));
}
