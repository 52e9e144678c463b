#include "layers/baselines.h"

#include "tests/support/catch.h"

using namespace cbwc;

namespace {

constexpr double kExact = 1e-12;  // float64, a few dozen products

BaselineConfig config_of(Baseline kind) {
  BaselineConfig c;
  c.kind = kind;
  c.channels = 2;
  c.image = 3;
  c.vocab = 7;
  c.hidden = 4;
  c.classes = 5;
  c.dtype = DType::f64;
  c.init_std = 0.5;
  return c;
}

// The loss after so many plain gradient steps on one batch.
double loss_after(BaselineModel& model, int steps) {
  const ModelInput input = model.example(6, 3);
  const ModelTargets targets{Tensor::from(std::vector<int32_t>{0, 1, 2, 3, 4, 1}, {6})};
  double loss = 0;
  for (int i = 0; i <= steps; ++i) {
    model.clear_grads();
    Tape tape;
    CrossEntropyResult result;
    {
      const TapeScope scope(&tape);
      result = model.loss(input, targets, Context{true, nullptr, nullptr});
    }
    loss = result.loss_sum.value().item() / 6;
    tape.backward(result.loss_sum);
    for (const ParameterPtr& p : model.parameters())
      for (int64_t j = 0; j < p->value().numel(); ++j)
        p->mutate().data<double>()[j] -= 0.05 * p->grad().data<double>()[j];
  }
  return loss;
}

}  // namespace

TEST_CASE("Every baseline learns a batch by heart, and is reproducible") {
  for (const Baseline kind : {Baseline::linear, Baseline::mlp, Baseline::bag_of_words}) {
    INFO(baseline_name(kind));
    BaselineModel model(config_of(kind), 1), twin(config_of(kind), 1), other(config_of(kind), 2);
    CHECK(parse_baseline(baseline_name(kind)) == kind);
    const double before = loss_after(model, 0);
    CHECK(before == loss_after(twin, 0));
    CHECK(before != loss_after(other, 0));
    CHECK(loss_after(model, 300) < 0.5 * before);
  }
}

TEST_CASE("A bag of words is the mean of the tokens that are not padding, in any order") {
  BaselineModel model(config_of(Baseline::bag_of_words), 1);
  const auto logits = [&](std::vector<int32_t> ids, const std::vector<int32_t>& mask) {
    ModelInput input;
    const int64_t t = std::ssize(ids);
    input.ids = Tensor::from(ids, {1, t});
    if (!mask.empty()) input.mask = Tensor::from(mask, {1, t});
    return model.logits(input, Context{}).value().to_vector<double>();
  };
  const std::vector<double> a = logits({1, 2, 3}, {}), b = logits({3, 1, 2, 6, 6}, {1, 1, 1, 0, 0}),
                            c = logits({3, 1, 2, 6, 6}, {});
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(std::abs(a[i] - b[i]) < kExact);
    CHECK(std::abs(a[i] - c[i]) > 1e-3);
  }
}

TEST_CASE("Baselines refuse what they cannot read") {
  BaselineModel linear(config_of(Baseline::linear), 1), bag(config_of(Baseline::bag_of_words), 1);
  CHECK_THROWS_AS(linear.logits(bag.example(2, 1), Context{}), Error);
  CHECK_THROWS_AS(bag.logits(linear.example(2, 1), Context{}), Error);
  BaselineConfig empty = config_of(Baseline::mlp);
  empty.classes = 0;
  CHECK_THROWS_AS(BaselineModel(empty, 1), Error);
  CHECK_THROWS_WITH(parse_baseline("forest"), ContainsSubstring("bag_of_words"));
}
