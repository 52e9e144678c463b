#include "data/samples.h"

#include <atomic>
#include <set>

#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

// Sample i as the row (i, random crop offset); its length is a scrambled function of i.
class Numbered : public Samples {
 public:
  explicit Numbered(int64_t size, int64_t bad = -1) : size_(size), bad_(bad) {}
  int64_t size() const override { return size_; }
  int64_t length(int64_t sample) const override { return sample * 7919 % 101; }
  Batch train_batch(const std::vector<Draw>& draws) const override {
    const auto rows = static_cast<int64_t>(draws.size());
    Batch batch{Tensor::empty({rows, 3}, DType::i32), Tensor::zeros({rows}, DType::i32)};
    for (int64_t row = 0; row < rows; ++row) {
      const Draw& draw = draws[static_cast<size_t>(row)];
      CBWC_CHECK(draw.sample != bad_, "image ", bad_, " cannot be decoded");
      int32_t* out = batch.ids.data<int32_t>() + row * 3;
      out[0] = static_cast<int32_t>(draw.sample);
      out[1] = static_cast<int32_t>(draw.epoch);
      out[2] = static_cast<int32_t>(draw.rng("crop").below(1 << 30));
    }
    return batch;
  }
  Batch eval_batch(const std::vector<int64_t>& samples) const override {
    Batch batch{Tensor::empty({static_cast<int64_t>(samples.size())}, DType::i32)};
    for (size_t i = 0; i < samples.size(); ++i) {
      CBWC_CHECK(samples[i] != bad_, "image ", bad_, " cannot be decoded");
      batch.ids.data<int32_t>()[i] = static_cast<int32_t>(samples[i]);
    }
    return batch;
  }

 private:
  const int64_t size_, bad_;
};

std::vector<std::vector<int32_t>> read(BatchStream& stream, int count) {
  std::vector<std::vector<int32_t>> all;
  for (int i = 0; i < count; ++i) all.push_back(stream.next().ids.to_vector<int32_t>());
  return all;
}

StreamOptions options(int64_t batch, int64_t prefetch, int64_t workers, int64_t position = 0) {
  return {.batch_size = batch,
          .seed = 1,
          .position = position,
          .prefetch = prefetch,
          .workers = workers};
}

}  // namespace

TEST_CASE("P65: workers do not change the stream, epochs differ, a position goes on exactly") {
  const int64_t n = 103, B = 8;
  for (const int64_t by_length : {0, 3}) {
    const auto split = split_of(std::make_shared<Numbered>(n), by_length);
    const int64_t batches = 26;  // two epochs: 206 samples in 13 + 13 batches, or 25.75 of them
    const auto expected = read(*split->stream(options(B, 0, 1)), batches);
    for (const int64_t workers : {1, 2, 4, 9}) {
      for (const int64_t prefetch : {1, 2, 16}) {
        auto stream = split->stream(options(B, prefetch, workers));
        REQUIRE(read(*stream, batches) == expected);
      }
    }
    for (const int taken : {1, 5, 12, 13, 14, 25}) {  // in the middle of an epoch, at its end
      auto first = split->stream(options(B, 3, 4));
      auto joined = read(*first, taken);
      auto second = split->stream(options(B, 3, 2, first->position()));
      for (auto& batch : read(*second, static_cast<int>(batches) - taken)) joined.push_back(batch);
      REQUIRE(joined == expected);
    }
    // What is random in a sample differs between samples and epochs, and repeats.
    std::set<int32_t> crops;
    std::vector<std::vector<int32_t>> seen(2);
    for (const auto& batch : expected)
      for (size_t i = 0; i < batch.size(); i += 3)
        if (batch[i + 1] < 2) {
          crops.insert(batch[i + 2]);
          seen[static_cast<size_t>(batch[i + 1])].push_back(batch[i]);
        }
    CHECK(crops.size() > 200);
    CHECK(seen[0] != seen[1]);
    for (auto& epoch : seen) {
      CHECK(!std::is_sorted(epoch.begin(), epoch.end()));
      std::sort(epoch.begin(), epoch.end());
      REQUIRE(epoch.size() == static_cast<size_t>(n));
      for (size_t i = 0; i < epoch.size(); ++i) REQUIRE(epoch[i] == static_cast<int32_t>(i));
    }
    StreamOptions other = options(B, 0, 1);
    other.seed = 2;
    CHECK(read(*split->stream(other), batches) != expected);
  }
}

TEST_CASE("Batches cross the end of an epoch, but not where they are sorted by length") {
  const auto plain = split_of(std::make_shared<Numbered>(10));
  auto stream = plain->stream(options(4, 0, 1));
  for (int i = 0; i < 5; ++i) REQUIRE(stream->next().ids.size(0) == 4);
  CHECK(stream->position() == 20);
  CHECK(stream->epoch() == 2);
  const auto sorted = split_of(std::make_shared<Numbered>(10), 2);
  stream = sorted->stream(options(4, 2, 2));
  std::vector<int64_t> rows;
  for (int i = 0; i < 6; ++i) rows.push_back(stream->next().ids.size(0));
  CHECK(rows == std::vector<int64_t>{4, 4, 2, 4, 4, 2});
  CHECK(stream->position() == 20);
  CHECK_THROWS_AS(sorted->stream(options(4, 0, 1, 6)), Error);
  CHECK_NOTHROW(plain->stream(options(4, 0, 1, 6)));
  // More rows than samples.
  CHECK(plain->stream(options(25, 0, 1))->next().ids.size(0) == 25);
  CHECK(sorted->stream(options(25, 0, 1))->next().ids.size(0) == 10);
}

TEST_CASE("Sorting by length saves padding") {
  const auto samples = std::make_shared<Numbered>(1000);
  const auto padded = [&](int64_t by_length) {
    auto stream = split_of(samples, by_length)->stream(options(10, 0, 1));
    int64_t tokens = 0;
    std::vector<int64_t> longest;
    for (int i = 0; i < 100; ++i) {
      const auto rows = stream->next().ids.to_vector<int32_t>();
      int64_t most = 0;
      for (size_t j = 0; j < rows.size(); j += 3) most = std::max(most, samples->length(rows[j]));
      longest.push_back(most);
      tokens += 10 * most;
    }
    CHECK(!std::is_sorted(longest.begin(), longest.end()));
    return tokens;
  };
  CHECK(padded(10) < 0.65 * static_cast<double>(padded(0)));
}

TEST_CASE("An exception reaches the consumer at its batch, for any number of workers") {
  const auto split = split_of(std::make_shared<Numbered>(64, 17));
  std::vector<int> good;
  for (const int64_t workers : {0, 1, 4}) {
    auto stream = split->stream(options(4, workers > 0 ? 3 : 0, std::max<int64_t>(workers, 1)));
    int count = 0;
    const std::string message = testing::message_of<Error>([&] {
      for (;; ++count) stream->next();
    });
    CHECK(message == "image 17 cannot be decoded");
    CHECK(stream->position() == 4 * count);
    good.push_back(count);
  }
  CHECK(good[0] > 0);
  CHECK(good == std::vector<int>(3, good[0]));
  auto pass = split->pass(4, 0);
  for (int i = 0; i < 4; ++i) CHECK(pass->next());
  CHECK_THROWS_AS(pass->next(), Error);
}

TEST_CASE("A pass gives every sample once in order; the last batch may be short") {
  const auto split = split_of(std::make_shared<Numbered>(10), 4);
  CHECK(split->samples() == 10);
  auto pass = split->pass(4, 0);
  CHECK(pass->batches() == 3);
  std::vector<int32_t> all;
  std::vector<int64_t> positions;
  while (const auto batch = pass->next()) {
    for (const int32_t id : batch->ids.to_vector<int32_t>()) all.push_back(id);
    positions.push_back(batch->positions);
  }
  CHECK(all == std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(positions == std::vector<int64_t>{4, 8, 10});
  CHECK(!pass->next());
  CHECK(split->pass(4, 2)->batches() == 2);
  CHECK(split->pass(4, 9)->batches() == 3);
}

TEST_CASE("A pass over a part is spread over the whole split") {
  std::set<int64_t> seen;
  for (int64_t k = 0; k < 6; ++k) seen.insert(pass_sample(k, 6, 60));
  CHECK(seen == std::set<int64_t>{0, 10, 20, 30, 40, 50});
  for (int64_t k = 0; k < 7; ++k) CHECK(pass_sample(k, 7, 7) == k);
}

TEST_CASE("A split of samples refuses what cannot be read") {
  CHECK_THROWS_AS(split_of(nullptr), Error);
  const auto empty = split_of(std::make_shared<Numbered>(0));
  CHECK_THROWS_AS(empty->stream(options(4, 0, 1)), Error);
  CHECK_THROWS_AS(empty->pass(4, 0), Error);
  const auto split = split_of(std::make_shared<Numbered>(5));
  CHECK_THROWS_AS(split->stream(options(0, 0, 1)), Error);
  CHECK_THROWS_AS(split->stream(options(4, -1, 1)), Error);
  CHECK_THROWS_AS(split->stream(options(4, 1, 0)), Error);
  CHECK_THROWS_AS(split->stream(options(4, 1, 1, -1)), Error);
  auto stream = split->stream(options(5, 4, 2));  // destroyed while it works
  const StreamSpeed speed = measure_stream(*stream, 6);
  CHECK(speed.samples == 30);
  CHECK(speed.samples_per_second > 0);
}
