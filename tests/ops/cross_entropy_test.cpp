#include "autograd/ops/cross_entropy.h"

#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/allocator.h"
#include "core/notices.h"
#include "core/parallel.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

namespace cbwc::testing {
namespace {

struct Loss {
  double sum = 0;
  std::vector<double> gradient;
};

// Sum and gradient in plain loops, straight from the formula.
Loss loss_loop(const Tensor& logits, const std::vector<int64_t>& targets, double smoothing,
               int64_t ignore) {
  const std::vector<double> z = logits.to(DType::f64).to_vector<double>();
  const size_t cols = static_cast<size_t>(logits.size(-1));
  Loss loss{0, std::vector<double>(z.size())};
  for (size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] == ignore) continue;
    const double* row = z.data() + r * cols;
    double m = row[0], total = 0, mean = 0;
    for (size_t j = 0; j < cols; ++j) m = std::max(m, row[j]);
    for (size_t j = 0; j < cols; ++j) total += std::exp(row[j] - m);
    for (size_t j = 0; j < cols; ++j) mean += row[j] / static_cast<double>(cols);
    const double lse = m + std::log(total);
    loss.sum += (1 - smoothing) * (lse - row[targets[r]]) + smoothing * (lse - mean);
    for (size_t j = 0; j < cols; ++j) {
      const double want = static_cast<int64_t>(j) == targets[r] ? 1 - smoothing : 0.0;
      loss.gradient[r * cols + j] =
          std::exp(row[j] - lse) - want - smoothing / static_cast<double>(cols);
    }
  }
  return loss;
}

TensorFunction loss_of(Tensor targets, CrossEntropyOptions options = {}) {
  return [targets, options](const std::vector<Variable>& in) {
    return cross_entropy(in[0], targets, options).loss_sum;
  };
}

Loss run(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {},
         double seed = 1) {
  Tape tape;
  TapeScope scope(&tape);
  const Variable z = tape.leaf(logits, true);
  const CrossEntropyResult r = cross_entropy(z, targets, options);
  BackwardOptions backward;
  backward.seed = seed;
  tape.backward(r.loss_sum, backward);
  return {r.loss_sum.value().item(), tape.grad(z).to(DType::f64).to_vector<double>()};
}

TEST_CASE("cross_entropy op cases") {
  for (double smoothing : {0.0, 0.1})
    for (int64_t cols : {2, 7, 1025, 3420}) {
      INFO(cols << " classes, smoothing " << smoothing);
      const std::vector<int64_t> ids = {1, 0, -100, cols - 1};
      const Tensor targets = Tensor::from<int64_t>(ids, {4});
      CrossEntropyOptions options;
      options.label_smoothing = smoothing;
      OpCase c;
      c.name = "cross_entropy";
      c.shapes = {{4, cols}};
      c.run = loss_of(targets, options);
      c.cuda = false;
      run_op_case(c);
      for (DType dtype : {DType::f64, DType::f32}) {
        const Tensor z = sample({4, cols}, 3, "logits", dtype);
        const Loss want = loss_loop(z, ids, smoothing, -100);
        const Loss got = run(z, targets.to(DType::i32), options);
        const double tolerance = dtype == DType::f64 ? 1e-13 : 2e-6;
        CHECK(got.sum == Approx(want.sum).epsilon(tolerance));
        CHECK(difference(Tensor::from(got.gradient, {4, cols}),
                         Tensor::from(want.gradient, {4, cols})) < tolerance);
      }
    }
}

TEST_CASE("cross_entropy refuses what it cannot do") {
  const Tensor z = sample({2, 5}, 1, "z");
  const auto call = [&](std::vector<int64_t> ids, double smoothing = 0.0) {
    CrossEntropyOptions options;
    options.label_smoothing = smoothing;
    const int64_t n = static_cast<int64_t>(ids.size());
    cross_entropy(z, Tensor::from<int64_t>(ids, {n}), options);
  };
  CHECK_THROWS_WITH(call({0, 5}), ContainsSubstring("target 5 at index 1"));  // cases.md P48
  CHECK_THROWS_WITH(call({-4, 0}), ContainsSubstring("target -4 at index 0"));
  CHECK_THROWS_WITH(call({0}), ContainsSubstring("1 targets for 2 rows"));
  CHECK_THROWS_WITH(call({0, 1}, 1.0), ContainsSubstring("label_smoothing"));
  CHECK_THROWS_WITH(cross_entropy(z, sample({2}, 1, "t")), ContainsSubstring("int32 or int64"));
  CHECK_NOTHROW(call({0, 4}));
}

TEST_CASE("cross_entropy with every target ignored (cases.md P46)") {
  const Tensor targets = Tensor::full({3}, -100, DType::i32);
  Tape tape;
  TapeScope scope(&tape);
  const Variable z = tape.leaf(sample({3, 4}, 1, "z", DType::f32), true);
  const int64_t before = notice_count(Notice::all_targets_ignored);
  const CrossEntropyResult r = cross_entropy(z, targets);
  CHECK(notice_count(Notice::all_targets_ignored) == before + 1);
  CHECK(r.count == 0);
  CHECK(r.loss_sum.value().item() == 0.0);
  tape.backward(r.loss_sum);
  CHECK(difference(tape.grad(z), Tensor::zeros({3, 4}, DType::f32)) == 0.0);
}

TEST_CASE("cross_entropy counts the targets that are not ignored") {
  const int64_t before = notice_count(Notice::all_targets_ignored);
  CHECK(cross_entropy(sample({3, 4}, 1, "z"), Tensor::from<int32_t>({1, -100, 2}, {3})).count == 2);
  CHECK(notice_count(Notice::all_targets_ignored) == before);
}

TEST_CASE("cross_entropy of large logits (cases.md P47)") {
  const Loss a = run(Tensor::from<float>({1000, 0}, {1, 2}), Tensor::from<int32_t>({1}, {1}));
  CHECK(a.sum == 1000.0);
  CHECK(a.gradient == std::vector<double>{1.0, -1.0});
  const Loss b = run(Tensor::from<double>({-1000, -1001}, {1, 2}), Tensor::from<int32_t>({0}, {1}));
  CHECK(b.sum == Approx(0.313261688).epsilon(2e-9));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(
      run(Tensor::from<float>({nan, nan}, {1, 2}), Tensor::from<int32_t>({0}, {1})).sum));
}

TEST_CASE("token-weighted accumulation (cases.md P44)") {
  // Micro-batches of 1 and 3 tokens, losses 4 and 1 each: 7/4, not the mean of the means.
  const auto logit_for = [](double loss) { return std::log(std::exp(loss) - 1); };  // against a 0
  const Tensor a = Tensor::from<double>({0, logit_for(4)}, {1, 2});
  const double l = logit_for(1);
  const Tensor b = Tensor::from<double>({0, l, 0, l, 0, l}, {3, 2});
  const CrossEntropyResult x = cross_entropy(a, Tensor::zeros({1}, DType::i32));
  const CrossEntropyResult y = cross_entropy(b, Tensor::zeros({3}, DType::i32));
  const double total = x.loss_sum.value().item() + y.loss_sum.value().item();
  CHECK(total / static_cast<double>(x.count + y.count) == Approx(1.75).epsilon(1e-12));
}

TEST_CASE("the seed of the backward scales the gradient") {
  const Tensor z = sample({2, 3}, 1, "seed"), t = Tensor::from<int32_t>({0, 2}, {2});
  const Loss one = run(z, t), quarter = run(z, t, {}, 0.25);
  for (size_t i = 0; i < one.gradient.size(); ++i)
    CHECK(quarter.gradient[i] == Approx(0.25 * one.gradient[i]).epsilon(1e-14));
}

TEST_CASE("the backward reuses the logits' buffer only when nobody else can see it") {
  const Tensor x = sample({64, 1000}, 1, "x", DType::f32), t = Tensor::zeros({64}, DType::i32);
  const size_t bytes = x.bytes();
  const auto peak = [&](bool hold) {
    Tape tape;
    TapeScope scope(&tape);
    const Variable leaf = tape.leaf(x, true);
    Variable held, loss;
    {
      const Variable z = scale(leaf, 2.0);
      loss = cross_entropy(z, t).loss_sum;
      if (hold) held = z;
    }
    const Tensor before = hold ? held.value().clone() : Tensor();
    reset_peak(Device::cpu);
    const size_t live = memory_stats(Device::cpu).live;
    tape.backward(loss);
    if (hold) CHECK(same_bits(before, held.value()));
    return memory_stats(Device::cpu).peak - live;
  };
  const size_t alone = peak(false), shared = peak(true);
  CHECK(shared >= alone + bytes);

  // Kept data survives for a second backward.
  Tape tape;
  TapeScope scope(&tape);
  const Variable leaf = tape.leaf(x, true);
  Variable loss;
  { loss = cross_entropy(scale(leaf, 2.0), t).loss_sum; }
  BackwardOptions keep;
  keep.keep_data = true;
  tape.backward(loss, keep);
  const Tensor first = tape.grad(leaf).clone();
  tape.backward(loss, keep);
  CHECK(same_bits(first, tape.grad(leaf)));
}

}  // namespace
}  // namespace cbwc::testing
