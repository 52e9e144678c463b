// The CUDA kernels, run by the emulation on any machine, against plain loops in double and against
// the CPU kernels.
#include <string>
#include <vector>

#include "core/check.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_emulation/kernels.h"
#include "tests/support/cuda_emulation/probes.h"
#include "tests/support/message_of.h"
#include "tests/support/norm_reference.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

struct Size {
  int64_t rows, cols;
};
// Every width with few rows, every row count with few columns; 1025 rows cross the chunks of
// dgamma.
const Size kSizes[] = {{1, 1},   {3, 1},    {31, 3},  {32, 31}, {33, 32},   {3, 33},   {64, 64},
                       {3, 127}, {33, 128}, {1, 129}, {3, 769}, {33, 1025}, {127, 33}, {1025, 3}};

template <class T>
void check_norms(Size size, bool affine, bool accumulate) {
  const NormCase<T> c(size.rows, size.cols, affine, 1e-5);
  INFO(size.rows << " x " << size.cols << ", affine " << affine << ", " << sizeof(T) << " bytes");
  {
    NormResult<T> got(c, accumulate);
    emulated::layer_norm_forward(layer_norm_forward_of(c, got));
    emulated::layer_norm_backward(layer_norm_backward_of(c, got, accumulate));
    CHECK(largest_error(got, layer_norm_reference(c, accumulate)) < tolerance<T>());
    NormResult<T> on_cpu(c, accumulate);
    cpu::layer_norm_forward(layer_norm_forward_of(c, on_cpu));
    cpu::layer_norm_backward(layer_norm_backward_of(c, on_cpu, accumulate));
    CHECK(largest_error(got, on_cpu) < tolerance<T>());
  }
  NormResult<T> got(c, accumulate);
  emulated::rms_norm_forward(rms_norm_forward_of(c, got));
  emulated::rms_norm_backward(rms_norm_backward_of(c, got, accumulate));
  CHECK(largest_error(got, rms_norm_reference(c, accumulate)) < tolerance<T>());
  NormResult<T> on_cpu(c, accumulate);
  cpu::rms_norm_forward(rms_norm_forward_of(c, on_cpu));
  cpu::rms_norm_backward(rms_norm_backward_of(c, on_cpu, accumulate));
  CHECK(largest_error(got, on_cpu) < tolerance<T>());
}

}  // namespace

TEST_CASE("emulated CUDA norms equal plain loops and the CPU kernels") {
  bool flip = false;
  for (const Size size : kSizes) {
    check_norms<float>(size, true, flip);
    if (size.rows < 1000) check_norms<double>(size, true, !flip);
    if (size.rows < 100) check_norms<float>(size, false, false);
    flip = !flip;
  }
}

TEST_CASE("the comparison of norms notices a wrong gradient") {
  const NormCase<double> c(3, 33, true, 1e-5);
  NormResult<double> got(c, false);
  emulated::layer_norm_forward(layer_norm_forward_of(c, got));
  emulated::layer_norm_backward(layer_norm_backward_of(c, got, false));
  for (double& value : got.dx) value *= 1.001;
  CHECK(largest_error(got, layer_norm_reference(c, false)) > tolerance<double>());
}

TEST_CASE("emulated CUDA norms give the same bits twice") {
  const NormCase<float> c(65, 129, true, 1e-5);
  NormResult<float> first(c, false), second(c, false);
  for (NormResult<float>* got : {&first, &second}) {
    emulated::layer_norm_forward(layer_norm_forward_of(c, *got));
    emulated::layer_norm_backward(layer_norm_backward_of(c, *got, false));
  }
  CHECK(first.y == second.y);
  CHECK(first.dx == second.dx);
  CHECK(first.dgamma == second.dgamma);
  CHECK(first.dbeta == second.dbeta);
}

TEST_CASE("emulated CUDA norms redo an overflowing float32 row in double") {
  NormCase<float> c(3, 64, true, 1e-5);
  for (int64_t i = 64; i < 128; ++i) c.x[static_cast<size_t>(i)] *= 1e30f;
  NormResult<float> got(c, false);
  emulated::layer_norm_forward(layer_norm_forward_of(c, got));
  NormResult<float> want = layer_norm_reference(c, false);
  CHECK(largest_difference(got.y, want.y) < tolerance<float>());
  emulated::rms_norm_forward(rms_norm_forward_of(c, got));
  want = rms_norm_reference(c, false);
  CHECK(largest_difference(got.y, want.y) < tolerance<float>());
}

TEST_CASE("emulated CUDA norms of no rows write zero parameter gradients") {
  const NormCase<float> c(0, 5, true, 1e-5);
  NormResult<float> got(c, true);
  emulated::layer_norm_backward(layer_norm_backward_of(c, got, false));
  CHECK(got.dgamma == std::vector<float>(5, 0.0f));
  CHECK(got.dbeta == std::vector<float>(5, 0.0f));
}

TEST_CASE("the emulation reports what a GPU would hang on or leave undefined") {
  CHECK_THAT(message_of(emulated::probe_skipped_barrier), ContainsSubstring("divergent barrier"));
  CHECK_THAT(message_of(emulated::probe_two_barriers), ContainsSubstring("divergent barrier"));
  CHECK_THAT(message_of(emulated::probe_skipped_shuffle), ContainsSubstring("divergent shuffle"));
  CHECK_THAT(message_of(emulated::probe_foreign_lane), ContainsSubstring("does not have"));
  CHECK_THAT(message_of(emulated::probe_shared_overrun),
             ContainsSubstring("beyond the block's shared memory"));
  CHECK(message_of(emulated::probe_good).empty());
}
