#include "data/samples.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "data/prefetch.h"

namespace cbwc {
namespace {

// The samples of an epoch in the order in which they are read.
class SampleOrder {
 public:
  SampleOrder(std::shared_ptr<const Samples> samples, int64_t batch, int64_t by_length,
              uint64_t seed)
      : samples_(std::move(samples)),
        size_(samples_->size()),
        batch_(batch),
        by_length_(by_length),
        seed_(seed) {}

  // The next batch from `position` on, which is moved behind it.
  std::vector<Draw> draw(int64_t& position) {
    const int64_t left = size_ - position % size_;
    const int64_t count = by_length_ > 0 ? std::min(batch_, left) : batch_;
    std::vector<Draw> draws;
    draws.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i, ++position) {
      load_epoch(position / size_);
      draws.push_back({order_[static_cast<size_t>(position % size_)], epoch_, seed_});
    }
    return draws;
  }

 private:
  void load_epoch(int64_t epoch) {
    if (epoch == epoch_) return;
    Rng rng(seed_, "data/epoch/" + std::to_string(epoch));
    order_.resize(static_cast<size_t>(size_));
    std::iota(order_.begin(), order_.end(), int64_t{0});
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[rng.below(i)]);
    if (by_length_ > 0) sort_stretches(rng);
    epoch_ = epoch;
  }

  void sort_stretches(Rng& rng) {
    const int64_t stretch = std::min(by_length_, size_ / batch_ + 1) * batch_;
    for (int64_t begin = 0; begin < size_; begin += stretch)
      std::stable_sort(
          order_.begin() + begin, order_.begin() + std::min(begin + stretch, size_),
          [&](int64_t a, int64_t b) { return samples_->length(a) < samples_->length(b); });
    // The short batch, if there is one, stays last, so that a position tells which batch it is.
    for (int64_t i = size_ / batch_; i > 1; --i) {
      const int64_t j = static_cast<int64_t>(rng.below(static_cast<uint64_t>(i)));
      if (j != i - 1)
        std::swap_ranges(order_.begin() + (i - 1) * batch_, order_.begin() + i * batch_,
                         order_.begin() + j * batch_);
    }
  }

  const std::shared_ptr<const Samples> samples_;
  const int64_t size_, batch_, by_length_;
  const uint64_t seed_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;
};

class SampleStream : public BatchStream {
 public:
  SampleStream(std::shared_ptr<const Samples> samples, const StreamOptions& o, int64_t by_length)
      : samples_(std::move(samples)),
        order_(samples_, o.batch_size, by_length, o.seed),
        planned_(o.position),
        given_(o.position) {
    if (o.prefetch > 0)
      ahead_ = std::make_unique<Prefetcher<Batch>>(
          std::function<Prefetcher<Batch>::Job()>([this] { return plan(); }),
          static_cast<size_t>(o.prefetch), static_cast<size_t>(o.workers));
  }
  Batch next() override {
    Batch batch = ahead_ ? std::move(*ahead_->next()) : std::move(*plan()());
    given_ = batch.positions;
    return batch;
  }
  int64_t position() const override { return given_; }
  double epoch() const override {
    return static_cast<double>(given_) / static_cast<double>(samples_->size());
  }

 private:
  Prefetcher<Batch>::Job plan() {
    std::vector<Draw> draws = order_.draw(planned_);
    return [this, draws = std::move(draws), after = planned_] {
      Batch batch = samples_->train_batch(draws);
      batch.positions = after;
      return std::optional<Batch>(std::move(batch));
    };
  }

  const std::shared_ptr<const Samples> samples_;
  SampleOrder order_;
  int64_t planned_, given_;
  std::unique_ptr<Prefetcher<Batch>> ahead_;  // last: its threads use all of the above
};

class SamplePass : public BatchPass {
 public:
  SamplePass(std::shared_ptr<const Samples> samples, int64_t batch, int64_t count)
      : samples_(std::move(samples)), batch_(batch), count_(count) {
    ahead_ = std::make_unique<Prefetcher<Batch>>([this] { return make(); }, kAhead);
  }
  std::optional<Batch> next() override { return ahead_->next(); }
  int64_t batches() const override { return (count_ + batch_ - 1) / batch_; }

 private:
  static constexpr size_t kAhead = 2;

  std::optional<Batch> make() {
    if (made_ >= count_) return std::nullopt;
    std::vector<int64_t> which(static_cast<size_t>(std::min(batch_, count_ - made_)));
    for (size_t i = 0; i < which.size(); ++i)
      which[i] = pass_sample(made_ + static_cast<int64_t>(i), count_, samples_->size());
    Batch batch = samples_->eval_batch(which);
    made_ += static_cast<int64_t>(which.size());
    batch.positions = made_;
    return batch;
  }

  const std::shared_ptr<const Samples> samples_;
  const int64_t batch_, count_;
  int64_t made_ = 0;
  std::unique_ptr<Prefetcher<Batch>> ahead_;
};

class SampleSplit : public DataSplit {
 public:
  SampleSplit(std::shared_ptr<const Samples> samples, int64_t by_length)
      : samples_(std::move(samples)), by_length_(by_length) {
    CBWC_CHECK(samples_, "samples: there are none");
    CBWC_CHECK(by_length >= 0, "samples: by_length is ", by_length, "; expected at least 0");
  }
  int64_t samples() const override { return samples_->size(); }

  std::unique_ptr<BatchStream> stream(const StreamOptions& o) const override {
    check(o.batch_size, "train on");
    CBWC_CHECK(o.position >= 0 && o.prefetch >= 0 && o.workers >= 1, "samples: position ",
               o.position, ", prefetch ", o.prefetch, " or workers ", o.workers,
               " is out of range (at least 0, 0, 1)");
    CBWC_CHECK(by_length_ == 0 || o.position % samples_->size() % o.batch_size == 0,
               "samples: position ", o.position, " is not the start of a batch of ", o.batch_size,
               "; with by_length a stream goes on only with the batch size it had");
    return std::make_unique<SampleStream>(samples_, o, by_length_);
  }
  std::unique_ptr<BatchPass> pass(int64_t batch_size, int64_t max_batches) const override {
    check(batch_size, "evaluate");
    int64_t count = samples_->size();
    if (max_batches > 0 && max_batches <= count / batch_size) count = max_batches * batch_size;
    return std::make_unique<SamplePass>(samples_, batch_size, count);
  }

 private:
  void check(int64_t batch_size, const char* what) const {
    CBWC_CHECK(batch_size >= 1, "samples: a batch of ", batch_size, "; expected at least 1");
    CBWC_CHECK(samples_->size() >= 1, "samples: the split to ", what, " is empty");
  }
  const std::shared_ptr<const Samples> samples_;
  const int64_t by_length_;
};

}  // namespace

int64_t pass_sample(int64_t k, int64_t count, int64_t size) { return k * size / count; }

Rng Draw::rng(const std::string& purpose) const {
  return Rng(seed,
             "sample/" + std::to_string(epoch) + "/" + std::to_string(sample) + "/" + purpose);
}

std::shared_ptr<const DataSplit> split_of(std::shared_ptr<const Samples> samples,
                                          int64_t by_length) {
  return std::make_shared<SampleSplit>(std::move(samples), by_length);
}

StreamSpeed measure_stream(BatchStream& stream, int64_t batches) {
  stream.next();  // what the first call pays for (the order of an epoch) is no part of the speed
  const int64_t before = stream.position();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < batches; ++i) stream.next();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  StreamSpeed speed{0, took.count(), stream.position() - before};
  if (speed.seconds > 0)
    speed.samples_per_second = static_cast<double>(speed.samples) / speed.seconds;
  return speed;
}

}  // namespace cbwc
