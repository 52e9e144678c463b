#include <cstdio>
#include <exception>

#include "core/kernels/blas.h"
#include "experiments/cli.h"

int main(int argc, char** argv) {
  try {
    cbwc::blas_startup(argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 2;
  }
  return cbwc::run_program(argc, argv);
}
