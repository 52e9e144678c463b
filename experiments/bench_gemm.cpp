#include "experiments/bench_gemm.h"

#include <algorithm>
#include <chrono>

#include "core/parallel.h"
#include "core/rng.h"
#include "core/tensor.h"

namespace cbwc {
namespace {

struct Effort {
  double budget_ms;
  int least;  // calls, the first of which warms up
};
constexpr Effort kThorough{400, 5}, kBrief{5, 3};

// Uniform numbers over and over: rounds come often, and products do not mind the repetition.
template <class T>
Tensor operand(int64_t n) {
  Rng rng(1, "gemm floor");
  Tensor pattern = Tensor::empty({1 << 16}, dtype_of<T>()), t = Tensor::empty({n}, dtype_of<T>());
  fill_uniform(pattern, -1, 1, rng);
  parallel_for(n, pattern.numel(), [&](int64_t begin, int64_t end) {
    std::copy_n(pattern.data<T>(), end - begin, t.data<T>() + begin);
  });
  return t;
}

template <class T>
double time_product(int64_t m, int64_t n, int64_t k, bool ta, bool tb, const Effort& effort) {
  using Clock = std::chrono::steady_clock;
  constexpr int kMost = 200;
  const Tensor a = operand<T>(m * k), b = operand<T>(k * n);
  Tensor c = Tensor::empty({m * n}, dtype_of<T>());
  double best = 1e30, spent = 0;
  for (int i = 0; i < kMost && (i < effort.least || spent < effort.budget_ms); ++i) {
    const auto start = Clock::now();
    cpu::gemm<T>(ta, tb, m, n, k, T(1), a.data<T>(), ta ? m : k, b.data<T>(), tb ? k : n, T(0),
                 c.data<T>(), n);
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (i > 0) best = std::min(best, ms);
    spent += ms;
  }
  return best;
}

double time_product(DType dtype, const GemmShape& g, const Effort& effort) {
  return dispatch_float(dtype, "bench", [&](auto zero) {
    return time_product<decltype(zero)>(g.m, g.n, g.k, g.transpose_a, g.transpose_b, effort);
  });
}

}  // namespace

GemmFloor::Key GemmFloor::key_of(const GemmShape& g) {
  return {g.m, g.n, g.k, g.transpose_a, g.transpose_b};
}

double GemmFloor::best_ms(const GemmShape& g) {
  const auto [found, fresh] = known_.try_emplace(key_of(g), 0);
  if (fresh) found->second = time_product(dtype_, g, kThorough);
  return found->second;
}

double GemmFloor::round_ms(const std::vector<GemmShape>& products) {
  double sum = 0;
  for (const GemmShape& g : products) {
    const double ms = time_product(dtype_, g, kBrief);
    const auto [found, fresh] = known_.try_emplace(key_of(g), ms);
    found->second = std::min(found->second, ms);
    sum += ms * static_cast<double>(g.calls);
  }
  return sum;
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
