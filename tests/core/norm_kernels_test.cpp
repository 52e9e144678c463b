// The CPU norm kernels against plain loops in double, over the widths and row counts at which
// kernels of comparable systems went wrong (cases.md, rule 3).
#include <string>
#include <vector>

#include "core/kernels/cpu/streaming.h"
#include "core/rng.h"
#include "tests/support/catch.h"
#include "tests/support/kernel_sizes.h"
#include "tests/support/norm_reference.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kEps = 1e-5;

template <class T>
NormResult<T> layer_norm_on_cpu(const NormCase<T>& c, bool accumulate) {
  NormResult<T> r(c, accumulate);
  cpu::layer_norm_forward(layer_norm_forward_of(c, r));
  cpu::layer_norm_backward(layer_norm_backward_of(c, r, accumulate));
  return r;
}

template <class T>
NormResult<T> rms_norm_on_cpu(const NormCase<T>& c, bool accumulate) {
  NormResult<T> r(c, accumulate);
  cpu::rms_norm_forward(rms_norm_forward_of(c, r));
  cpu::rms_norm_backward(rms_norm_backward_of(c, r, accumulate));
  return r;
}

template <class T>
void check_size(int64_t rows, int64_t cols) {
  INFO(rows << " x " << cols << ", " << sizeof(T) << " bytes");
  const bool accumulate = (rows + cols) % 2 == 0, affine = cols % 5 != 0;
  const NormCase<T> c(rows, cols, affine, kEps);
  CHECK(largest_error(layer_norm_on_cpu(c, accumulate), layer_norm_reference(c, accumulate)) <=
        tolerance<T>());
  CHECK(largest_error(rms_norm_on_cpu(c, accumulate), rms_norm_reference(c, accumulate)) <=
        tolerance<T>());
}

template <class T>
void check_sizes(const std::vector<int64_t>& rows, const std::vector<int64_t>& cols) {
  for (const int64_t r : rows)
    for (const int64_t c : cols) check_size<T>(r, c);
}

}  // namespace

TEST_CASE("CPU norms equal plain loops at every width and row count") {
  check_sizes<float>(kFew, kNarrow);
  check_sizes<float>(kFew, kWide);
  check_sizes<float>(kMany, kNarrow);
  check_sizes<float>(kMany, kWide);
  check_sizes<double>(kFew, kNarrow);
  check_sizes<double>(kFew, kWide);
  check_sizes<double>(kMany, kNarrow);
}

TEST_CASE("CPU norms of very many narrow rows equal plain loops") {
  check_sizes<float>(kVeryMany, kNarrow);
  check_sizes<double>({65537}, {1, 6, 9});
}

// Large results go past the caches, in whole vectors where rows are whole ones; a part of the rows
// alone is small enough not to.
TEST_CASE("CPU norms give the same bits however large the result is") {
  constexpr int64_t kParts = 4, kFew = 1030, kRows = kParts * kFew;
  for (const int64_t cols : {512, 640, 1001, 5000}) {
    INFO(cols);
    const auto random = [&](int64_t rows, int64_t columns, uint64_t seed) {
      Tensor t = Tensor::empty({rows, columns}, DType::f32);
      Rng rng(seed, "norm rows");
      fill_uniform(t, -1, 3, rng);
      return t;
    };
    const Tensor x = random(kRows, cols, 1), dy = random(kRows, cols, 2),
                 gamma = random(1, cols, 3);
    const auto run = [&](bool layer_norm, int64_t rows, int64_t first, const Tensor& y,
                         const Tensor& dx) {
      const Tensor mean = Tensor::empty({rows}, DType::f32), rstd = mean.clone();
      const float *in = x.data<float>() + first * cols, *up = dy.data<float>() + first * cols,
                  *gain = gamma.data<float>();
      float *m = mean.data<float>(), *r = rstd.data<float>(), *out = y.data<float>() + first * cols,
            *down = dx.data<float>() + first * cols;
      if (layer_norm) {
        cpu::layer_norm_forward(
            LayerNormForward<float>{in, gain, nullptr, out, m, r, rows, cols, kEps});
        cpu::layer_norm_backward(LayerNormBackward<float>{up, in, gain, m, r, down, nullptr,
                                                          nullptr, false, false, rows, cols});
      } else {
        cpu::rms_norm_forward(RmsNormForward<float>{in, gain, nullptr, out, r, rows, cols, kEps});
        cpu::rms_norm_backward(RmsNormBackward<float>{up, in, gain, r, down, nullptr, nullptr,
                                                      false, false, rows, cols});
      }
    };
    for (const bool layer_norm : {true, false}) {
      const Tensor y = Tensor::empty({kRows, cols}, DType::f32), dx = y.clone(), y2 = y.clone(),
                   dx2 = y.clone();
      cpu::force_streaming(true);
      run(layer_norm, kRows, 0, y, dx);
      cpu::force_streaming({});
      for (int64_t p = 0; p < kParts; ++p) run(layer_norm, kFew, p * kFew, y2, dx2);
      CHECK(y.to_vector<float>() == y2.to_vector<float>());
      CHECK(dx.to_vector<float>() == dx2.to_vector<float>());
    }
    cpu::force_streaming(true);
    CHECK(cpu::is_streamed(x.data<float>(), kRows, 4 * cols) == (cols % 16 == 0));
    CHECK_FALSE(cpu::is_streamed(x.data<float>() + 1, kRows, 4 * cols));
    CHECK_FALSE(cpu::is_streamed(x.data<float>(), kFew, 4 * 512));
    CHECK_FALSE(cpu::is_streamed(nullptr, kRows, 4 * cols));
    cpu::force_streaming(false);
    CHECK_FALSE(cpu::is_streamed(x.data<float>(), kRows, 4 * cols));
    cpu::force_streaming({});
  }
}

TEST_CASE("The comparison notices one wrong element in each result") {
  const NormCase<float> c(33, 65, true, kEps);
  const NormResult<float> want = rms_norm_reference(c, false);
  for (int which = 0; which < 5; ++which) {
    NormResult<float> got = rms_norm_on_cpu(c, false);
    std::vector<float>* parts[] = {&got.y, &got.rstd, &got.dx, &got.dgamma, &got.dbeta};
    parts[which]->back() += 1e-3f * (1 + std::abs(parts[which]->back()));
    INFO("part " << which);
    CHECK(largest_error(got, want) > tolerance<float>());
  }
}
