// The loss that every model shares, with two classes a row (mixup, cutmix).
#include "layers/model.h"

#include <algorithm>
#include <cmath>

#include "tests/support/catch.h"

using namespace cbwc;

namespace {

constexpr double kExact = 1e-13;   // float64, a few dozen terms
constexpr double kVisible = 1e-3;  // what a wrong share changes

const std::vector<double> kLogits = {0.3, -1.2, 2.0, 0.1, 0.7, 0.7, -0.4, 1.1, 0.9, -2.0, 0.2, 0.5};
const std::vector<int32_t> kFirst = {2, 0, -100, 1}, kSecond = {1, 0, -100, 2};

Tensor logits() { return Tensor::from(kLogits, {4, 3}); }
Tensor classes(const std::vector<int32_t>& ids) { return Tensor::from(ids, {4}); }

struct Result {
  double loss = 0;
  int64_t count = 0;
  std::vector<double> gradient;
};

Result run(const ModelTargets& targets, const CrossEntropyOptions& options = {}) {
  Tape tape;
  CrossEntropyResult result;
  Variable x;
  {
    const TapeScope scope(&tape);
    x = tape.leaf(logits(), true);
    result = Model::loss_of(x, targets, options);
  }
  tape.backward(result.loss_sum);
  return {result.loss_sum.value().item(), result.count, tape.grad(x).to_vector<double>()};
}

}  // namespace

TEST_CASE("A mixed loss is the weighted sum of the two losses, with its gradient") {
  for (const double smoothing : {0.0, 0.1}) {
    const CrossEntropyOptions options{-100, smoothing};
    const Result a = run({classes(kFirst)}, options), b = run({classes(kSecond)}, options);
    for (const double share : {0.0, 0.3, 1.0}) {
      const Result mixed = run({classes(kFirst), classes(kSecond), share}, options);
      INFO("smoothing " << smoothing << ", share " << share);
      CHECK(mixed.count == 3);
      CHECK(std::abs(mixed.loss - (share * a.loss + (1 - share) * b.loss)) < kExact);
      double off = 0;
      for (size_t i = 0; i < kLogits.size(); ++i) {
        CHECK(std::abs(mixed.gradient[i] - (share * a.gradient[i] + (1 - share) * b.gradient[i])) <
              kExact);
        off = std::max(off, std::abs(mixed.gradient[i] - a.gradient[i]));
      }
      CHECK((share == 1 ? off < kExact : off > kVisible));
    }
  }
}

TEST_CASE("The gradient of a mixed loss agrees with finite differences") {
  const ModelTargets targets{classes(kFirst), classes(kSecond), 0.3};
  const Result analytic = run(targets);
  constexpr double kStep = 1e-6, kDifferences = 1e-8;  // of a central difference of O(1) values
  for (size_t i = 0; i < kLogits.size(); ++i) {
    const auto at = [&](double change) {
      std::vector<double> x = kLogits;
      x[i] += change;
      return Model::loss_of(Variable(Tensor::from(x, {4, 3})), targets).loss_sum.value().item();
    };
    CHECK(std::abs((at(kStep) - at(-kStep)) / (2 * kStep) - analytic.gradient[i]) < kDifferences);
  }
}

TEST_CASE("A loss refuses targets that do not fit its logits") {
  const Tensor short_one = Tensor::from(std::vector<int32_t>{0, 1}, {2});
  const Variable x(logits());
  CHECK_THROWS_WITH(Model::loss_of(x, {short_one}), ContainsSubstring("2 targets"));
  CHECK_THROWS_WITH(Model::loss_of(x, {classes(kFirst), short_one, 0.5}),
                    ContainsSubstring("2 mixed targets"));
  CHECK_THROWS_AS(Model::loss_of(x, {classes({0, 3, 0, 0})}), Error);
}
