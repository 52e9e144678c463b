// main() of every test program: OpenBLAS is started as the program does it, then Catch2 runs.
#define CATCH_CONFIG_RUNNER
#include "core/kernels/blas.h"
#include "tests/support/catch.h"

int main(int argc, char** argv) {
  cbwc::blas_startup(argv);
  return Catch::Session().run(argc, argv);
}
