// The CUDA kernels on a real GPU against plain loops in double. Passes without a check, and says
// so, where there is no GPU.
#include <cstdio>
#include <vector>

#include "core/allocator.h"
#include "core/device_services.h"
#include "core/kernels/matmul.h"
#include "tests/support/catch.h"
#include "tests/support/norm_reference.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

bool has_gpu() {
  if (cuda::device_count() > 0) return true;
  std::printf("skipped: %s\n", cuda::built() ? "no CUDA device" : "this build has no CUDA");
  return false;
}

// A copy of host values on the GPU for as long as it lives.
template <class T>
class OnGpu {
 public:
  explicit OnGpu(const std::vector<T>& values) : bytes_(values.size() * sizeof(T)) {
    data_ = static_cast<T*>(allocate(bytes_, Device::cuda));
    cuda::copy(data_, values.data(), bytes_, cuda::CopyKind::to_device);
  }
  ~OnGpu() { release(data_, bytes_, Device::cuda); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  T* data() const { return data_; }
  void fetch(std::vector<T>& values) const {
    cuda::copy(values.data(), data_, bytes_, cuda::CopyKind::to_host);
  }

 private:
  size_t bytes_;
  T* data_ = nullptr;
};

template <class T>
void check_norms(int64_t rows, int64_t cols) {
  const NormCase<T> c(rows, cols, true, 1e-5);
  const OnGpu<T> x(c.x), dy(c.dy), gamma(c.gamma), beta(c.beta);
  for (const bool centred : {true, false}) {
    INFO(rows << " x " << cols << (centred ? " LayerNorm" : " RMSNorm"));
    NormResult<T> got(c, true);
    const OnGpu<T> y(got.y), mean(got.mean), rstd(got.rstd), dx(got.dx), dgamma(got.dgamma),
        dbeta(got.dbeta);
    if (centred) {
      cuda::layer_norm_forward(LayerNormForward<T>{x.data(), gamma.data(), beta.data(), y.data(),
                                                   mean.data(), rstd.data(), rows, cols, c.eps});
      cuda::layer_norm_backward(LayerNormBackward<T>{dy.data(), x.data(), gamma.data(), mean.data(),
                                                     rstd.data(), dx.data(), dgamma.data(),
                                                     dbeta.data(), true, true, rows, cols});
    } else {
      cuda::rms_norm_forward(RmsNormForward<T>{x.data(), gamma.data(), beta.data(), y.data(),
                                               rstd.data(), rows, cols, c.eps});
      cuda::rms_norm_backward(RmsNormBackward<T>{dy.data(), x.data(), gamma.data(), rstd.data(),
                                                 dx.data(), dgamma.data(), dbeta.data(), true, true,
                                                 rows, cols});
    }
    y.fetch(got.y);
    mean.fetch(got.mean);
    rstd.fetch(got.rstd);
    dx.fetch(got.dx);
    dgamma.fetch(got.dgamma);
    dbeta.fetch(got.dbeta);
    CHECK(largest_error(got, centred ? layer_norm_reference(c, true)
                                     : rms_norm_reference(c, true)) < tolerance<T>());
  }
}

}  // namespace

TEST_CASE("CUDA norms equal plain loops") {
  if (!has_gpu()) return;
  for (const int64_t cols : {1, 3, 33, 128, 769})
    for (const int64_t rows : {1, 32, 1025}) {
      check_norms<float>(rows, cols);
      check_norms<double>(rows, cols);
    }
  check_norms<float>(70000, 33);
}

TEST_CASE("CUDA products equal a plain loop, in float32 without TF32") {
  if (!has_gpu()) return;
  constexpr int64_t m = 37, n = 53, k = 129;
  // TF32 keeps 10 bits of each factor, an error near 1e-3 of the result's scale; float32 is far
  // below.
  constexpr double kFloat32Product = 1e-5;
  const NormCase<float> a(m, k, false, 0), b(k, n, false, 0);
  for (const bool transpose : {false, true}) {
    std::vector<float> want(m * n), got(m * n, 0.5f), stored_b(b.x);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0.5;
        for (int64_t l = 0; l < k; ++l)
          sum += static_cast<double>(a.x[static_cast<size_t>(i * k + l)]) *
                 b.x[static_cast<size_t>(l * n + j)];
        want[static_cast<size_t>(i * n + j)] = static_cast<float>(sum);
      }
    for (int64_t l = 0; l < k && transpose; ++l)
      for (int64_t j = 0; j < n; ++j)
        stored_b[static_cast<size_t>(j * k + l)] = b.x[static_cast<size_t>(l * n + j)];
    const OnGpu<float> ga(a.x), gb(stored_b), gc(got);
    cuda::matmul(Matmul<float>{.a = ga.data(),
                               .b = gb.data(),
                               .c = gc.data(),
                               .m = m,
                               .n = n,
                               .k = k,
                               .transpose_b = transpose,
                               .accumulate = true});
    gc.fetch(got);
    CHECK(largest_difference(got, want) < kFloat32Product);
  }
}

TEST_CASE("P67 e: a factor of more than TF32's 11 bits keeps them all on the GPU") {
  if (!has_gpu()) return;
  std::vector<float> c{0};
  const OnGpu<float> a({1024.5f}), b({1.f}), gc(c);
  cuda::matmul(Matmul<float>{.a = a.data(), .b = b.data(), .c = gc.data(), .m = 1, .n = 1, .k = 1});
  gc.fetch(c);
  CHECK(c[0] == 1024.5f);
}
