#include "autograd/ops/softmax.h"

#include <cmath>
#include <limits>

#include "autograd/ops/activation.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

namespace cbwc::testing {
namespace {

// exp and division in plain loops; its gradient comes from the gradient check.
std::vector<double> softmax_loop(const Tensor& x) {
  const std::vector<double> in = x.to(DType::f64).to_vector<double>();
  const int64_t cols = x.size(-1);
  std::vector<double> y(in.size());
  for (size_t r = 0; r < in.size(); r += static_cast<size_t>(cols)) {
    double m = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < cols; ++j) m = std::max(m, in[r + j]);
    for (int64_t j = 0; j < cols; ++j) sum += y[r + j] = std::exp(in[r + j] - m);
    for (int64_t j = 0; j < cols; ++j) y[r + j] /= sum;
  }
  return y;
}

TEST_CASE("softmax op case") {
  for (Shape shape : {Shape{3, 5}, Shape{2, 3, 33}, Shape{1, 1}, Shape{4, 1025}}) {
    OpCase c;
    c.name = "softmax";
    c.shapes = {shape};
    c.run = [](const std::vector<Variable>& in) { return softmax(scale(in[0], 1.5)); };
    c.cuda = false;
    if (shape.back() > 1) run_op_case(c);
    for (DType dtype : {DType::f64, DType::f32}) {
      const Tensor x = sample(shape, 3, "softmax", dtype);
      const Tensor want = Tensor::from(softmax_loop(x), shape);
      CHECK(difference(softmax(x).value(), want) < (dtype == DType::f64 ? 1e-14 : 1e-6));
    }
  }
}

TEST_CASE("softmax of large logits (cases.md P47)") {
  const Tensor x = Tensor::from<float>({1e4f, 10001.0f, 0.0f, -1e4f}, {2, 2});
  const std::vector<float> y = softmax(x).value().to_vector<float>();
  CHECK(y[0] == Approx(0.268941421).epsilon(1e-6));
  CHECK(y[1] == Approx(0.731058579).epsilon(1e-6));
  CHECK(y[2] == 1.0f);
  CHECK(y[3] == 0.0f);
}

TEST_CASE("softmax of a row without any finite logit") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from<float>({-inf, -inf, 1.0f, -inf, nan, -inf}, {3, 2});
  Tape tape;
  TapeScope scope(&tape);
  const Variable leaf = tape.leaf(x, true);
  const Variable y = softmax(leaf);
  const std::vector<float> got = y.value().to_vector<float>();
  CHECK(got[0] == 0.0f);
  CHECK(got[1] == 0.0f);
  CHECK(got[2] == 1.0f);
  CHECK(got[3] == 0.0f);
  CHECK(std::isnan(got[4]));  // not a number is not a mask
}

// These backwards write into the incoming gradient when they alone hold it. Here the add hands one
// buffer to two readers, and the op under test, recorded last, comes first (cases.md, rule 5).
TEST_CASE("a gradient with another reader is left alone") {
  const Tensor x = sample({2, 3}, 1, "shared");
  const TensorFunction same = [](const std::vector<Variable>& in) { return scale(in[0], 1.0); };
  const TensorFunction ops[] = {
      [](const std::vector<Variable>& in) { return softmax(in[0]); },
      [](const std::vector<Variable>& in) { return gelu(in[0], Gelu::tanh); },
      [](const std::vector<Variable>& in) {
        Rng rng(1, "dropout");
        return dropout(in[0], 0.5, rng);
      },
  };
  for (const TensorFunction& op : ops) {
    const Evaluation both = evaluate(
        [&](const std::vector<Variable>& in) {
          const Variable first = same(in), second = op(in);
          return add(first, second);
        },
        {x});
    const Tensor a = evaluate(same, {x}).gradients[0], b = evaluate(op, {x}).gradients[0];
    CHECK(difference(both.gradients[0], add(a, b).value()) < 1e-15);
    CHECK(difference(both.gradients[0], add(b, b).value()) > 1e-2);
  }
}

}  // namespace
}  // namespace cbwc::testing
