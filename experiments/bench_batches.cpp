#include "experiments/bench_batches.h"

#include "core/check.h"

namespace cbwc {
namespace {

using Batches = std::shared_ptr<const std::vector<Batch>>;

class Cycle : public BatchStream {
 public:
  explicit Cycle(Batches batches) : batches_(std::move(batches)) {}
  Batch next() override { return (*batches_)[static_cast<size_t>(at_++) % batches_->size()]; }
  int64_t position() const override { return at_; }
  double epoch() const override {
    return static_cast<double>(at_) / static_cast<double>(batches_->size());
  }

 private:
  Batches batches_;
  int64_t at_ = 0;
};

class OnePass : public BatchPass {
 public:
  OnePass(Batches source, int64_t count) : batches_(std::move(source)), count_(count) {}
  std::optional<Batch> next() override {
    if (at_ == count_) return std::nullopt;
    return (*batches_)[static_cast<size_t>(at_++)];
  }
  int64_t batches() const override { return count_; }

 private:
  Batches batches_;
  const int64_t count_;
  int64_t at_ = 0;
};

}  // namespace

PreparedBatches::PreparedBatches(const DataSplit& split, const StreamOptions& options,
                                 int64_t count)
    : batch_size_(options.batch_size) {
  const auto stream = split.stream(options);
  std::vector<Batch> batches;
  for (int64_t i = 0; i < count; ++i) batches.push_back(stream->next());
  batches_ = std::make_shared<const std::vector<Batch>>(std::move(batches));
}

std::unique_ptr<BatchStream> PreparedBatches::stream(const StreamOptions& options) const {
  CBWC_CHECK(options.batch_size == batch_size_ && options.position == 0, "prepared batches hold ",
             batch_size_, " samples and start at 0, not ", options.batch_size, " at ",
             options.position);
  return std::make_unique<Cycle>(batches_);
}

std::unique_ptr<BatchPass> PreparedBatches::pass(int64_t batch_size, int64_t max_batches) const {
  CBWC_CHECK(batch_size == batch_size_, "prepared batches hold ", batch_size_, " samples, not ",
             batch_size);
  const int64_t all = std::ssize(*batches_);
  return std::make_unique<OnePass>(batches_, max_batches > 0 ? std::min(max_batches, all) : all);
}

}  // namespace cbwc
