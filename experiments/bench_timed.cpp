#include "experiments/bench_timed.h"

#include <algorithm>
#include <chrono>

#include "core/parallel.h"

namespace cbwc {

double time_calls(const std::function<void()>& run, int64_t calls) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (int64_t i = 0; i < calls; ++i) run();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count() /
         static_cast<double>(calls);
}

void time_ops(std::vector<Timed>& ops, int repeats) {
  constexpr double kBatchMs = 1.0;  // a batch of calls takes at least about this
  for (Timed& op : ops) op.run();
  std::vector<int64_t> calls;
  for (Timed& op : ops)
    calls.push_back(1 + static_cast<int64_t>(kBatchMs / std::max(time_calls(op.run, 3), 1e-4)));
  for (int r = 0; r < repeats; ++r)
    for (size_t i = 0; i < ops.size(); ++i) {
      const size_t at = (i + static_cast<size_t>(r)) % ops.size();
      ops[at].run();
      ops[at].ms.push_back(time_calls(ops[at].run, calls[at]));
    }
}

template <class T>
void read_pass(const T* data, int64_t n, std::vector<T>& sums) {
  sums.resize(static_cast<size_t>((n + kReadChunk - 1) / kReadChunk));
  parallel_for(std::ssize(sums), 1, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const T* x = data + chunk * kReadChunk;
      const int64_t count = std::min(kReadChunk, n - chunk * kReadChunk), quarter = count / 4;
      T a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
      for (int64_t i = 0; i < quarter; ++i) {
        a += x[i];
        b += x[i + quarter];
        c += x[i + 2 * quarter];
        d += x[i + 3 * quarter];
      }
      for (int64_t i = 4 * quarter; i < count; ++i) a += x[i];
      sums[static_cast<size_t>(chunk)] = a + b + c + d;
    }
  });
}
template void read_pass(const float*, int64_t, std::vector<float>&);
template void read_pass(const double*, int64_t, std::vector<double>&);

}  // namespace cbwc
