#include "data/batches.h"

#include <algorithm>
#include <numeric>

#include "core/rng.h"
#include "data/prefetch.h"

namespace cbwc {
namespace {

void check_sizes(int64_t batch_size, int64_t context) {
  CBWC_CHECK(batch_size >= 1 && context >= 1, "batches: a batch of ", batch_size, " windows of ",
             context, " tokens; both must be at least 1");
}

}  // namespace

BatchOrder::BatchOrder(int64_t tokens, int64_t context, uint64_t seed, const std::string& name)
    : tokens_(tokens), context_(context), seed_(seed) {
  check_sizes(1, context);
  CBWC_CHECK(tokens > context, name, " has ", tokens, " tokens, expected at least ", context + 1,
             " for a window of model.context ", context,
             "; use a shorter context, or build the file with more text or a larger part for this "
             "split");
  // One window fewer than would fit at offset 0, so that any offset below the context fits too.
  windows_ = std::max<int64_t>((tokens - 1) / context - 1, 1);
}

void BatchOrder::load_epoch(int64_t epoch) {
  if (epoch == epoch_) return;
  Rng rng(seed_, "data/epoch/" + std::to_string(epoch));
  const int64_t slack = tokens_ - 1 - windows_ * context_;
  offset_ =
      static_cast<int64_t>(rng.below(static_cast<uint64_t>(std::min(slack, context_ - 1)) + 1));
  order_.resize(static_cast<size_t>(windows_));
  std::iota(order_.begin(), order_.end(), int64_t{0});
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[rng.below(i)]);
  epoch_ = epoch;
}

int64_t BatchOrder::start(int64_t position) {
  CBWC_CHECK(position >= 0, "batches: position ", position, " is negative");
  load_epoch(position / windows_);
  return offset_ + order_[static_cast<size_t>(position % windows_)] * context_;
}

struct TrainBatches::State {
  State(std::shared_ptr<const TokenSplit> tokens, BatchOptions o)
      : split(std::move(tokens)),
        options(o),
        order(split->size(), o.context, o.seed, split->name()),
        made(o.position),
        given(o.position) {
    CBWC_CHECK(o.position >= 0, "batches: position ", o.position, " is negative");
    if (o.prefetch > 0)
      ahead = std::make_unique<Prefetcher<Batch>>([this] { return std::optional<Batch>(make()); },
                                                  static_cast<size_t>(o.prefetch));
  }

  Batch make() {
    const int64_t B = options.batch_size, T = options.context;
    Batch batch{Tensor::empty({B, T}, DType::i32), Tensor::empty({B, T}, DType::i32)};
    for (int64_t row = 0; row < B; ++row) {
      const int64_t start = order.start(made++);
      split->copy(start, T, batch.ids.data<int32_t>() + row * T);
      split->copy(start + 1, T, batch.targets.data<int32_t>() + row * T);
    }
    batch.positions = made;
    return batch;
  }

  std::shared_ptr<const TokenSplit> split;
  const BatchOptions options;
  BatchOrder order;
  int64_t made, given;                       // `made` belongs to the thread that makes batches
  std::unique_ptr<Prefetcher<Batch>> ahead;  // last: its thread uses all of the above
};

TrainBatches::TrainBatches(std::shared_ptr<const TokenSplit> split, BatchOptions options) {
  CBWC_CHECK(split, "batches: no split");
  check_sizes(options.batch_size, options.context);
  state_ = std::make_unique<State>(std::move(split), options);
}
TrainBatches::~TrainBatches() = default;
TrainBatches::TrainBatches(TrainBatches&&) noexcept = default;

Batch TrainBatches::next() {
  Batch batch = state_->ahead ? std::move(*state_->ahead->next()) : state_->make();
  state_->given = batch.positions;
  return batch;
}

int64_t TrainBatches::position() const { return state_->given; }
int64_t TrainBatches::windows_per_epoch() const { return state_->order.windows_per_epoch(); }
double TrainBatches::epoch() const {
  return static_cast<double>(position()) / static_cast<double>(windows_per_epoch());
}

EvalBatches::EvalBatches(std::shared_ptr<const TokenSplit> split, int64_t batch_size,
                         int64_t context, int64_t max_batches)
    : split_(std::move(split)), batch_size_(batch_size), context_(context) {
  CBWC_CHECK(split_, "batches: no split");
  check_sizes(batch_size, context);
  CBWC_CHECK(split_->size() >= 2, split_->name(), " has ", split_->size(),
             " tokens, expected at least 2 to evaluate on; choose another split, or build the file "
             "with more text or a larger part for this one");
  windows_ = (split_->size() - 1 + context - 1) / context;
  if (max_batches > 0) windows_ = std::min(windows_, max_batches * batch_size);
}

int64_t EvalBatches::batches() const { return (windows_ + batch_size_ - 1) / batch_size_; }

std::optional<Batch> EvalBatches::next() {
  if (position_ >= windows_) return std::nullopt;
  const int64_t B = std::min(batch_size_, windows_ - position_), T = context_;
  Batch batch{Tensor::zeros({B, T}, DType::i32), Tensor::full({B, T}, kIgnoredTarget, DType::i32)};
  for (int64_t row = 0; row < B; ++row) {
    const int64_t start = (position_ + row) * T;
    const int64_t count = std::min(T, split_->size() - 1 - start);
    split_->copy(start, count, batch.ids.data<int32_t>() + row * T);
    split_->copy(start + 1, count, batch.targets.data<int32_t>() + row * T);
  }
  position_ += B;
  batch.positions = position_;
  return batch;
}

}  // namespace cbwc
