#include "experiments/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "autograd/ops/cross_entropy.h"

namespace cbwc {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kTop = 5;

}  // namespace

const std::vector<MetricInfo>& metric_table() {
  static const std::vector<MetricInfo> table = {
      {"loss", "validation loss", "", false, 1, 4},
      {"perplexity", "perplexity", "", false, 1, 3},
      {"accuracy", "accuracy (top-1)", "%", true, 100, 2},
      {"top5", "top-5 accuracy", "%", true, 100, 2},
      {"macro_f1", "macro-F1", "%", true, 100, 2},
      {"token_accuracy", "accuracy per token", "%", true, 100, 2},
      {"bleu", "BLEU", "", true, 1, 2},
  };
  return table;
}

const MetricInfo& metric_info(const std::string& name) {
  std::vector<std::string> names;
  for (const MetricInfo& info : metric_table()) {
    if (info.name == name) return info;
    names.push_back(info.name);
  }
  throw Error(
      fmt::format("metric \"{}\" is not known; there are {}", name, fmt::join(names, ", ")));
}

std::string format_metric(const MetricInfo& info, double value) {
  if (!std::isfinite(value)) return "n/a";
  return fmt::format("{:.{}f}", value * info.scale, info.digits);
}

bool follows_loss(const std::string& metric) { return metric == "loss" || metric == "perplexity"; }

double perplexity_of(double mean_loss) { return std::exp(mean_loss); }

ClassificationCounts::ClassificationCounts(int64_t classes) : classes_(classes) {
  CBWC_CHECK(classes > 0, "classification: expected at least one class, got ", classes);
  for (auto* counts : {&true_positive_, &predicted_, &actual_})
    counts->assign(static_cast<size_t>(classes), 0);
}

void ClassificationCounts::add(const Tensor& logits, const Tensor& targets) {
  CBWC_CHECK(logits.rank() >= 1 && logits.size(-1) == classes_, "classification: logits of shape ",
             to_string(logits.shape()), " for ", classes_, " classes");
  const int64_t rows = logits.numel() / classes_;
  CBWC_CHECK(targets.numel() == rows, "classification: ", targets.numel(), " targets for ", rows,
             " rows of logits");
  const Tensor x = logits.to(Device::cpu).to(DType::f64).contiguous();
  const Tensor y = targets.to(Device::cpu).to(DType::i64).contiguous();
  const int64_t ignored = CrossEntropyOptions{}.ignore_index;
  std::vector<double> row(static_cast<size_t>(classes_));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t target = y.data<int64_t>()[r];
    if (target == ignored) continue;
    CBWC_CHECK(target >= 0 && target < classes_, "classification: target ", target, " of row ", r,
               " is not one of ", classes_, " classes");
    const double* from = x.data<double>() + r * classes_;
    row.assign(from, from + classes_);
    add_row(row, target);
  }
}

void ClassificationCounts::add_row(const std::vector<double>& logits, int64_t target) {
  ++count_;
  ++actual_[static_cast<size_t>(target)];
  size_t best = 0;
  int64_t before = 0;  // classes that come before the target in the order of logits
  const double own = logits[static_cast<size_t>(target)];
  for (size_t c = 0; c < logits.size(); ++c) {
    if (std::isnan(logits[c])) return;
    if (logits[c] > logits[best]) best = c;
    before += logits[c] > own || (logits[c] == own && static_cast<int64_t>(c) < target);
  }
  ++predicted_[best];
  top_[0] += before == 0;
  top_[1] += before < kTop;
  true_positive_[best] += static_cast<int64_t>(best) == target;
}

double ClassificationCounts::share(int64_t right) const {
  return count_ == 0 ? kNan : static_cast<double>(right) / static_cast<double>(count_);
}

double ClassificationCounts::macro_f1() const {
  double sum = 0;
  int64_t present = 0;
  for (size_t c = 0; c < actual_.size(); ++c) {
    // 2 TP + FP + FN: what was predicted and what was there.
    const int64_t both = predicted_[c] + actual_[c];
    if (both == 0) continue;
    ++present;
    sum += 2.0 * static_cast<double>(true_positive_[c]) / static_cast<double>(both);
  }
  return present == 0 ? kNan : sum / static_cast<double>(present);
}

std::vector<std::pair<std::string, double>> ClassificationCounts::values() const {
  std::vector<std::pair<std::string, double>> out = {{"accuracy", accuracy()}};
  if (classes_ > kTop) out.emplace_back("top5", top5());
  out.emplace_back("macro_f1", macro_f1());
  return out;
}

}  // namespace cbwc
