// Threads: one setting for OpenMP and OpenBLAS. Work is cut into chunks whose size does not depend
// on the thread count, so that reductions over chunks give the same bits for any thread count.
#pragma once
#include <cstdint>

namespace cbwc {

void set_threads(int threads);  // OpenMP and BLAS alike; 0 = OMP_NUM_THREADS, else one per core
int threads();

// f(begin, end) over [0, n) in chunks of `grain`, in parallel; exceptions must not leave f.
template <class F>
void parallel_for(int64_t n, int64_t grain, const F& f) {
  if (n <= 0) return;
  const int64_t chunks = (n + grain - 1) / grain;
  if (chunks == 1) return f(int64_t{0}, n);
#pragma omp parallel for schedule(static)
  for (int64_t c = 0; c < chunks; ++c) {
    const int64_t begin = c * grain;
    f(begin, begin + grain < n ? begin + grain : n);
  }
}

}  // namespace cbwc
