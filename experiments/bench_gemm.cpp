#include "experiments/bench_gemm.h"

#include <algorithm>
#include <chrono>

#include "core/rng.h"
#include "core/tensor.h"

namespace cbwc {
namespace {

template <class T>
double time_product(int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  using Clock = std::chrono::steady_clock;
  constexpr double kBudgetMs = 400;
  constexpr int kLeast = 5, kMost = 200;
  Rng rng(1, "gemm floor");
  Tensor a = Tensor::empty({m * k}, dtype_of<T>()), b = Tensor::empty({k * n}, dtype_of<T>()),
         c = Tensor::empty({m * n}, dtype_of<T>());
  fill_uniform(a, -1, 1, rng);
  fill_uniform(b, -1, 1, rng);
  double best = 1e30, spent = 0;
  for (int i = 0; i < kMost && (i < kLeast || spent < kBudgetMs); ++i) {
    const auto start = Clock::now();
    cpu::gemm<T>(ta, tb, m, n, k, T(1), a.data<T>(), ta ? m : k, b.data<T>(), tb ? k : n, T(0),
                 c.data<T>(), n);
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (i > 0) best = std::min(best, ms);
    spent += ms;
  }
  return best;
}

}  // namespace

double GemmFloor::best_ms(const GemmShape& g) {
  const auto [found, fresh] = known_.try_emplace({g.m, g.n, g.k, g.transpose_a, g.transpose_b}, 0);
  if (fresh)
    found->second = dispatch_float(dtype_, "bench", [&](auto zero) {
      return time_product<decltype(zero)>(g.m, g.n, g.k, g.transpose_a, g.transpose_b);
    });
  return found->second;
}

std::vector<GemmTime> GemmFloor::times(const std::vector<GemmShape>& products) {
  std::vector<GemmTime> out;
  for (const GemmShape& g : products) {
    const double ms = best_ms(g);
    const double flop =
        2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
    const std::string transposes =
        std::string(g.transpose_a ? "t" : "n") + (g.transpose_b ? "t" : "n");
    out.push_back({g.m, g.n, g.k, transposes, g.calls, ms, flop / ms / 1e6});
  }
  return out;
}

double floor_ms(const std::vector<GemmTime>& products) {
  double sum = 0;
  for (const GemmTime& g : products) sum += g.best_ms * static_cast<double>(g.calls);
  return sum;
}

}  // namespace cbwc
