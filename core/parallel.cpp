#include "core/parallel.h"

#include <omp.h>

#include "core/kernels/blas.h"

namespace cbwc {

void set_threads(int threads) {
  // Taken before anything changes it: one per core, or what OMP_NUM_THREADS says.
  static const int by_default = omp_get_max_threads();
  const int n = threads > 0 ? threads : by_default;
  omp_set_dynamic(0);
  omp_set_num_threads(n);
  cpu::set_blas_threads(n);
}

int threads() { return omp_get_max_threads(); }

}  // namespace cbwc
