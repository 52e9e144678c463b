#include "data/batches.h"

#include <numeric>
#include <set>

#include "core/parallel.h"
#include "data/prefetch.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

// Token i of the split is i, so that a batch tells where it was cut.
std::shared_ptr<const TokenSplit> counting_split(int64_t size) {
  std::vector<int32_t> ids(static_cast<size_t>(size));
  std::iota(ids.begin(), ids.end(), 0);
  return std::make_shared<TokenSplit>(ids, std::vector<int64_t>{0}, size);
}

std::vector<int32_t> read(TrainBatches& batches, int count) {
  std::vector<int32_t> all;
  for (int i = 0; i < count; ++i) {
    const Batch batch = batches.next();
    for (const Tensor& t : {batch.ids, batch.targets}) {
      const auto values = t.to_vector<int32_t>();
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

}  // namespace

TEST_CASE("An epoch visits disjoint windows once each, in another order every epoch") {
  const int64_t tokens = 1003, context = 10;
  BatchOrder order(tokens, context, 1);
  const int64_t n = order.windows_per_epoch();
  CHECK(n == 99);
  std::vector<std::vector<int64_t>> epochs;
  std::set<int64_t> offsets;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < n; ++i) starts.push_back(order.start(epoch * n + i));
    epochs.push_back(starts);
    CHECK(!std::is_sorted(starts.begin(), starts.end()));
    std::sort(starts.begin(), starts.end());
    for (size_t i = 1; i < starts.size(); ++i) REQUIRE(starts[i] == starts[i - 1] + context);
    CHECK(starts.front() >= 0);
    CHECK(starts.back() + context + 1 <= tokens);
    offsets.insert(starts.front());
  }
  CHECK(offsets.size() > 4);
  CHECK(epochs[0] != epochs[1]);
  BatchOrder other(tokens, context, 2);
  int differ = 0;
  for (int64_t i = 0; i < n; ++i) differ += other.start(i) != epochs[0][static_cast<size_t>(i)];
  CHECK(differ > 80);
  BatchOrder again(tokens, context, 1);  // and from anywhere, backwards too
  CHECK(again.start(3 * n + 5) == epochs[3][5]);
  CHECK(again.start(7) == epochs[0][7]);
}

TEST_CASE("Targets are the next tokens") {
  TrainBatches batches(counting_split(500), {3, 16, 9});
  for (int i = 0; i < 30; ++i) {
    const Batch batch = batches.next();
    REQUIRE(batch.ids.shape() == Shape{3, 16});
    const auto ids = batch.ids.to_vector<int32_t>(), targets = batch.targets.to_vector<int32_t>();
    for (size_t j = 0; j < ids.size(); ++j) {
      REQUIRE(targets[j] == ids[j] + 1);
      if (j % 16) REQUIRE(ids[j] == ids[j - 1] + 1);
    }
  }
  CHECK(batches.position() == 90);
}

TEST_CASE("P65: the stream does not depend on prefetch or threads, and goes on from a position") {
  const auto split = counting_split(700);
  BatchOptions options{4, 8, 5};
  options.prefetch = 0;
  TrainBatches plain(split, options);
  const auto expected = read(plain, 60);  // more than two epochs
  const int before = threads();
  for (const int64_t prefetch : {int64_t{1}, int64_t{2}, int64_t{16}}) {
    set_threads(prefetch == 1 ? 1 : 2);
    options.prefetch = prefetch;
    TrainBatches ahead(split, options);
    CHECK(read(ahead, 60) == expected);
  }
  set_threads(before);
  TrainBatches first(split, options);
  auto joined = read(first, 23);
  BatchOptions rest = options;
  rest.position = first.position();
  CHECK(rest.position == 92);
  TrainBatches second(split, rest);
  const auto tail = read(second, 37);
  joined.insert(joined.end(), tail.begin(), tail.end());
  CHECK(joined == expected);
  BatchOptions other = options;
  other.seed = 6;
  TrainBatches different(split, other);
  CHECK(read(different, 60) != expected);
}

TEST_CASE("Evaluation makes every token but the first a target once") {
  for (const int64_t size : {2, 8, 9, 10, 100}) {
    EvalBatches batches(counting_split(size), 3, 8);
    for (int pass = 0; pass < 2; ++pass) {
      int64_t next = 1, count = 0;
      while (const auto batch = batches.next()) {
        ++count;
        const auto ids = batch->ids.to_vector<int32_t>();
        const auto targets = batch->targets.to_vector<int32_t>();
        for (size_t i = 0; i < ids.size(); ++i) {
          if (targets[i] == kIgnoredTarget) continue;
          REQUIRE(targets[i] == next++);
          REQUIRE(ids[i] == targets[i] - 1);
        }
      }
      CHECK(next == size);
      CHECK(count == batches.batches());
      batches.rewind();
    }
  }
  EvalBatches limited(counting_split(100), 3, 8, 2);
  CHECK(limited.batches() == 2);
  CHECK(limited.next()->ids.shape() == Shape{3, 8});
}

TEST_CASE("P64: a document longer than the context is packed, not cut") {
  // 1042 tokens at context 1024: each token but the first is a target once, the rest is padding.
  EvalBatches batches(counting_split(1042), 1, 1024);
  CHECK(batches.batches() == 2);
  int64_t targets = 0, padded = 0;
  while (const auto batch = batches.next())
    for (const int32_t target : batch->targets.to_vector<int32_t>())
      target == kIgnoredTarget ? ++padded : ++targets;
  CHECK(targets == 1041);
  CHECK(padded == 2 * 1024 - 1041);
  // Training windows are whole; over the epochs' offsets every token is seen.
  TrainBatches train(counting_split(1042), {1, 1024, 3});
  CHECK(train.windows_per_epoch() == 1);
  std::set<int32_t> seen;
  for (int epoch = 0; epoch < 200; ++epoch) {
    const Batch batch = train.next();
    for (const Tensor& t : {batch.ids, batch.targets})
      for (const int32_t id : t.to_vector<int32_t>()) seen.insert(id);
  }
  CHECK(seen.size() == 1042);
}

TEST_CASE("Splits that are too small say so") {
  CHECK_THROWS_AS(TrainBatches(counting_split(8), (BatchOptions{1, 8, 0})), Error);
  TrainBatches smallest(counting_split(9), {2, 8, 0});
  CHECK(smallest.windows_per_epoch() == 1);
  CHECK(smallest.next().ids.to_vector<int32_t>()[15] == 7);
  CHECK_THROWS_AS(EvalBatches(counting_split(1), 1, 8), Error);
  CHECK_THROWS_AS(TrainBatches(counting_split(90), (BatchOptions{0, 8, 0})), Error);
  CHECK_THROWS_AS(TrainBatches(counting_split(90), (BatchOptions{1, 8, 0, -1})), Error);
}

TEST_CASE("A producer's exception reaches the consumer after the items before it") {
  int made = 0;
  Prefetcher<int> items(
      [&]() -> std::optional<int> {
        if (made == 3) throw Error("the disk is gone");
        return made++;
      },
      2);
  for (int i = 0; i < 3; ++i) CHECK(items.next() == i);
  CHECK_THROWS_AS(items.next(), Error);
  CHECK_THROWS_AS(items.next(), Error);
  Prefetcher<int> endless([]() -> std::optional<int> { return 1; }, 2);  // destroyed while running
  int left = 2;
  Prefetcher<int> ends([&]() { return left-- > 0 ? std::optional<int>(left) : std::nullopt; }, 1);
  CHECK(ends.next() == 1);
  CHECK(ends.next() == 0);
  CHECK(!ends.next());
}
