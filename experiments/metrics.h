// What a trained model is judged by: the metrics' names and directions, and counting them.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace cbwc {

// Values in files and in memory are fractions, BLEU 0 to 100; a table shows value * scale.
struct MetricInfo {
  std::string name, label, unit;
  bool higher_is_better = false;
  double scale = 1;
  int digits = 3;
};
const std::vector<MetricInfo>& metric_table();
const MetricInfo& metric_info(const std::string& name);           // Error naming the known ones
std::string format_metric(const MetricInfo& info, double value);  // "87.31", "n/a" for nan

// Loss and perplexity: what moves with the loss alone.
bool follows_loss(const std::string& metric);

double perplexity_of(double mean_loss);  // exp

// Predictions against the truth, over any number of batches. Where several classes have the largest
// logit the first is predicted; a row with a nan counts as wrong and predicts nothing.
class ClassificationCounts {
 public:
  explicit ClassificationCounts(int64_t classes);
  // logits (..., classes) of float32 or float64; targets int32 or int64, one a row, kIgnored is
  // left out. Error for another count or a target outside the classes.
  void add(const Tensor& logits, const Tensor& targets);

  int64_t count() const { return count_; }
  double accuracy() const { return share(top_[0]); }  // nan while nothing was counted
  double top5() const { return share(top_[1]); }      // the target is among the five largest
  // The mean of 2 TP / (2 TP + FP + FN) over the classes that occur in the truth or are predicted,
  // as scikit-learn's f1_score(average="macro") takes it without `labels`.
  double macro_f1() const;
  // accuracy, top5 (with more than five classes), macro_f1: for `metrics` in result.json.
  std::vector<std::pair<std::string, double>> values() const;

 private:
  double share(int64_t right) const;
  void add_row(const std::vector<double>& logits, int64_t target);
  const int64_t classes_;
  int64_t count_ = 0, top_[2] = {0, 0};
  std::vector<int64_t> true_positive_, predicted_, actual_;  // per class
};

}  // namespace cbwc
