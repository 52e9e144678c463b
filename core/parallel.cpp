#include "core/parallel.h"

#include <omp.h>

#include "core/kernels/blas.h"

namespace cbwc {

void set_threads(int threads) {
  const int n = threads > 0 ? threads : omp_get_num_procs();
  omp_set_dynamic(0);
  omp_set_num_threads(n);
  cpu::set_blas_threads(n);
}

int threads() { return omp_get_max_threads(); }

}  // namespace cbwc
