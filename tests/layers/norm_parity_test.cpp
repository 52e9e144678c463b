// LayerNorm and RMSNorm against PyTorch (tests/fixtures/make_norms.py).
#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/layer_norm.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/rms_norm.h"
#include "layers/compare.h"
#include "tests/support/catch.h"
#include "tests/support/fixture.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kRounding = 1e-13;  // float64 on both sides, rows of seven

Tensor wave(Shape shape, double scale, double phase, double shift) {
  Tensor out = Tensor::zeros(std::move(shape), DType::f64);
  for (int64_t i = 0; i < out.numel(); ++i) {
    out.data<double>()[i] = scale * std::sin(1.3 * static_cast<double>(i) + phase) + shift;
  }
  return out;
}

}  // namespace

TEST_CASE("the norms follow PyTorch, for a small and a large eps") {
  for (const std::string kind : {"layer_norm", "rms_norm"}) {
    for (const auto& [label, eps] : {std::pair{"small", 1e-5}, std::pair{"large", 0.5}}) {
      INFO(kind << " " << label);
      const std::string group = kind + "/" + label + "/";
      Tape tape;
      const TapeScope scope(&tape);
      const Variable x = tape.leaf(wave({5, 7}, 1.0, 0.2, 0.7), true);
      const Variable gamma = tape.leaf(wave({7}, 0.5, 0.4, 1.0), true);
      const Variable beta = tape.leaf(wave({7}, 0.5, 0.6, 0.1), true);
      const Variable y =
          kind == "layer_norm" ? layer_norm(x, gamma, beta, eps) : rms_norm(x, gamma, beta, eps);
      const Tensor expected = read_fixture("norms.h5", group + "y");
      CHECK(relative_difference(expected, y.value()) <= kRounding);
      tape.backward(sum(mul(y, wave({5, 7}, 1.0, 0.9, 0.3))));
      CHECK(relative_difference(read_fixture("norms.h5", group + "dx"), tape.grad(x)) <= kRounding);
      CHECK(relative_difference(read_fixture("norms.h5", group + "dgamma"), tape.grad(gamma)) <=
            kRounding);
      CHECK(relative_difference(read_fixture("norms.h5", group + "dbeta"), tape.grad(beta)) <=
            kRounding);
    }
  }
  // The fixture tells one eps from the other.
  CHECK(relative_difference(read_fixture("norms.h5", "rms_norm/small/y"),
                            read_fixture("norms.h5", "rms_norm/large/y")) > 0.1);
}
