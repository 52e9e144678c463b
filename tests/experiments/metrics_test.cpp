// Classification counts with numbers worked out by hand, and against a count from the definition.
#include "experiments/metrics.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/check.h"
#include "core/rng.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

constexpr double kRounding = 1e-12;

// Logits that predict the given classes.
Tensor predicting(const std::vector<int>& predicted, int64_t classes) {
  Tensor x = Tensor::full({static_cast<int64_t>(predicted.size()), classes}, -1.0, DType::f32);
  for (size_t i = 0; i < predicted.size(); ++i)
    x.data<float>()[static_cast<int64_t>(i) * classes + predicted[i]] = 2.0f;
  return x;
}

Tensor ids(const std::vector<int32_t>& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

double f1_of(const std::vector<int>& truth, const std::vector<int>& predicted) {
  std::set<int> labels(truth.begin(), truth.end());
  labels.insert(predicted.begin(), predicted.end());
  double sum = 0;
  for (const int label : labels) {
    double tp = 0, fp = 0, fn = 0;
    for (size_t i = 0; i < truth.size(); ++i) {
      tp += truth[i] == label && predicted[i] == label;
      fp += truth[i] != label && predicted[i] == label;
      fn += truth[i] == label && predicted[i] != label;
    }
    const double precision = tp + fp > 0 ? tp / (tp + fp) : 0,
                 recall = tp + fn > 0 ? tp / (tp + fn) : 0;
    sum += precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
  }
  return sum / static_cast<double>(labels.size());
}

}  // namespace

TEST_CASE("accuracy and macro-F1 of scikit-learn's own example") {
  // f1_score([0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1], average="macro") is 0.2666...
  ClassificationCounts counts(10);
  counts.add(predicting({0, 2, 1}, 10), ids({0, 1, 2}));
  counts.add(predicting({0, 0, 1, 5}, 10), ids({0, 1, 2, -100}));
  CHECK(counts.count() == 6);
  CHECK(std::abs(counts.accuracy() - 2.0 / 6) < kRounding);
  CHECK(std::abs(counts.macro_f1() - 0.8 / 3) < kRounding);
}

TEST_CASE("macro-F1 counts classes that are only predicted, and leaves out absent ones") {
  ClassificationCounts counts(7);
  counts.add(predicting({0, 0, 3}, 7), ids({0, 0, 0}));
  CHECK(std::abs(counts.macro_f1() - 0.4) < kRounding);  // (0.8 + 0) / 2
}

TEST_CASE("counts agree with the definition on drawn predictions") {
  Rng rng(1, "metrics");
  const int64_t classes = 12, rows = 300;
  ClassificationCounts counts(classes);
  std::vector<int> truth, predicted;
  double first = 0, five = 0;
  for (int batch = 0; batch < 3; ++batch) {
    Tensor logits = Tensor::empty({rows, classes}, DType::f64);
    fill_normal(logits, 0.5, 1.0, rng);
    std::vector<int32_t> targets;
    for (int64_t r = 0; r < rows; ++r) {
      targets.push_back(static_cast<int32_t>(rng.below(9)));
      double* row = logits.data<double>() + r * classes;
      row[targets.back()] += 1.0;
      std::vector<int> order(static_cast<size_t>(classes));
      for (int c = 0; c < classes; ++c) order[static_cast<size_t>(c)] = c;
      std::sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
      truth.push_back(targets.back());
      predicted.push_back(order[0]);
      first += order[0] == targets.back();
      five += std::find(order.begin(), order.begin() + 5, targets.back()) != order.begin() + 5;
    }
    counts.add(logits.reshape({3, rows / 3, classes}), ids(targets));
  }
  CHECK(std::abs(counts.accuracy() - first / (3.0 * rows)) < kRounding);
  CHECK(std::abs(counts.top5() - five / (3.0 * rows)) < kRounding);
  CHECK(std::abs(counts.macro_f1() - f1_of(truth, predicted)) < kRounding);
  CHECK(counts.top5() > counts.accuracy() + 0.1);
  CHECK(counts.values().size() == 3);
  CHECK(ClassificationCounts(5).values().size() == 2);
}

TEST_CASE("ties, nan and nothing at all") {
  ClassificationCounts counts(6);
  CHECK(std::isnan(counts.accuracy()));
  CHECK(std::isnan(counts.macro_f1()));
  // All logits equal: the first class is predicted; the sixth is not among the first five.
  counts.add(Tensor::zeros({3, 6}, DType::f32), ids({0, 4, 5}));
  CHECK(std::abs(counts.accuracy() - 1.0 / 3) < kRounding);
  CHECK(std::abs(counts.top5() - 2.0 / 3) < kRounding);
  counts.add(Tensor::full({3, 6}, NAN, DType::f32), ids({0, 0, 0}));
  CHECK(std::abs(counts.accuracy() - 1.0 / 6) < kRounding);
  CHECK(std::abs(counts.top5() - 2.0 / 6) < kRounding);
}

TEST_CASE("what the counts refuse, and the table of metrics") {
  ClassificationCounts counts(6);
  CHECK_THROWS_AS(counts.add(Tensor::zeros({2, 5}, DType::f32), ids({0, 0})), Error);
  CHECK_THROWS_AS(counts.add(Tensor::zeros({2, 6}, DType::f32), ids({0})), Error);
  CHECK_THROWS_AS(counts.add(Tensor::zeros({2, 6}, DType::f32), ids({0, 6})), Error);
  CHECK_THROWS_AS(ClassificationCounts(0), Error);
  CHECK_THROWS_AS(metric_info("accurracy"), Error);
  CHECK(metric_info("bleu").higher_is_better);
  CHECK_FALSE(metric_info("perplexity").higher_is_better);
  CHECK(format_metric(metric_info("accuracy"), 0.90125) == "90.12");
  CHECK(format_metric(metric_info("loss"), NAN) == "n/a");
  CHECK(perplexity_of(std::log(8.0)) == Approx(8));
}
