// bench ops, train and loader: what their rows count, for every family.
#include <numeric>
#include <set>

#include "core/check.h"
#include "experiments/bench.h"
#include "experiments/bench_batches.h"
#include "experiments/bench_timed.h"
#include "experiments/training_data.h"
#include "tests/experiments/tiny_families.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

constexpr int64_t kBatch = 2, kSeq = 4;

TrainBenchOptions quick() {
  TrainBenchOptions o;
  o.arms = {"layernorm", "cbwc_rmsnorm"};
  o.batch = kBatch;
  o.seq = kSeq;
  o.steps = o.warmup = 1;
  return o;
}

double per_second(const TrainBenchRow& row, int64_t count) {
  return 1000.0 * static_cast<double>(count) / row.median_ms;
}

}  // namespace

TEST_CASE("bench train: every family, named by what it reads") {
  const testing::TemporaryFolder folder;
  for (const testing::TinyFamily& family : testing::tiny_families(folder)) {
    INFO(family.name);
    const Config config = testing::family_config(family);
    const bool images = reads_images(config);
    const int64_t languages = family.name == "translation" ? 2 : 1;
    const TrainBench bench = bench_train(config, quick());
    CHECK(bench.seq == (images ? 0 : kSeq));
    CHECK((bench.patches > 0) == images);
    CHECK(bench.note.find("seeded") == 0);
    REQUIRE(bench.rows.size() == 2);
    for (const TrainBenchRow& row : bench.rows) {
      CHECK(row.gemm_floor_ms > 0);
      CHECK(row.over_gemm_floor > 0);
      // One step: over the only round of products before it, which cannot be faster than the best.
      CHECK(row.paired_over_gemm_floor > 0);
      CHECK(row.paired_over_gemm_floor <= row.over_gemm_floor * (1 + 1e-9));
      CHECK(row.samples_per_s == Approx(per_second(row, kBatch)));
      CHECK(row.tokens_per_s == Approx(images ? 0 : per_second(row, languages * kBatch * kSeq)));
      const Task task = task_of(config);
      if (task == Task::classification)
        CHECK(row.targets_per_s == Approx(row.samples_per_s));
      else if (task == Task::masked_language_model)
        CHECK(row.targets_per_s < row.tokens_per_s);
      else
        CHECK(row.targets_per_s == Approx(row.tokens_per_s / static_cast<double>(languages)));
    }
    const nlohmann::json row = train_bench_json(bench).at("rows").at(0);
    CHECK(row.at("tokens_per_s").is_null() == images);
    CHECK(row.at("samples_per_s").is_number());
    CHECK(train_bench_table(bench).find(images ? "patches" : "x 4 tokens") != std::string::npos);
  }
}

TEST_CASE("bench train: --seq is bounded by the context, which is also its default's bound") {
  const Config config = testing::tiny_config("none.h5");
  TrainBenchOptions o = quick();
  o.arms = {"layernorm"};
  o.seq = 17;
  CHECK_THROWS_WITH(bench_train(config, o), ContainsSubstring("model.context"));
  o.seq = 0;
  CHECK(bench_train(config, o).seq == 16);
}

TEST_CASE("prepared batches are the stream's own, over and over") {
  const TrainingData data = cbwc::random_data(testing::tiny_config("none.h5"), 20, 1);
  const StreamOptions options{.batch_size = 2, .seed = 3, .prefetch = 0};
  const PreparedBatches prepared(*data.train, options, 3);
  const auto original = data.train->stream(options), cycle = prepared.stream(options);
  const auto ids = [](const Batch& b) {
    return std::vector<int32_t>(b.ids.data<int32_t>(), b.ids.data<int32_t>() + b.ids.numel());
  };
  std::vector<std::vector<int32_t>> first;
  for (int i = 0; i < 3; ++i) {
    first.push_back(ids(cycle->next()));
    CHECK(first.back() == ids(original->next()));
  }
  CHECK(first[0] != first[1]);
  for (int i = 0; i < 3; ++i) CHECK(ids(cycle->next()) == first[static_cast<size_t>(i)]);
  CHECK(cycle->epoch() == 2);
  const auto pass = prepared.pass(2, 2);
  CHECK(ids(*pass->next()) == first[0]);
  CHECK(pass->next());
  CHECK(!pass->next());
  CHECK_THROWS_AS(prepared.stream({.batch_size = 4}), Error);
  CHECK_THROWS_AS(prepared.pass(4, 0), Error);
}

TEST_CASE("bench loader: the stream of every kind of data beside the step") {
  const testing::TemporaryFolder folder;
  LoaderBenchOptions o;
  o.workers = {1, 3};
  o.batches = 2;
  o.steps = 1;
  for (const testing::TinyFamily& family : testing::tiny_families(folder)) {
    INFO(family.name);
    const LoaderBench bench = bench_loader(testing::family_config(family), o);
    CHECK(bench.step_samples_per_s > 0);
    REQUIRE(bench.rows.size() == 2);
    CHECK(bench.rows[0].workers == 1);
    CHECK(bench.rows[1].workers == 3);
    for (const LoaderRow& row : bench.rows) {
      CHECK(row.samples_per_s > 0);
      CHECK(row.samples > 0);
      CHECK(row.keeps_up == (row.samples_per_s >= bench.step_samples_per_s));
    }
    const nlohmann::json json = loader_bench_json(bench);
    for (const char* key : {"samples_per_s", "step_samples_per_s", "workers"})
      CHECK(json.at("rows")[1].at(key).is_number());
    CHECK(json.at("rows")[1].at("keeps_up").is_boolean());
  }
}

TEST_CASE("bench loader: a stream that is too slow is called so; missing data name the command") {
  LoaderBench bench;
  bench.step_samples_per_s = 100;
  bench.rows = {{1, 10, 50, false}, {2, 10, 100, true}};
  const std::string table = loader_bench_table(bench);
  CHECK(table.find("0.5 x the step: TOO SLOW") != std::string::npos);
  CHECK(table.find("1.0 x the step: keeps up") != std::string::npos);
  const testing::TemporaryFolder folder;
  const std::string config = folder.file("tiny.toml");
  testing::write_bytes(config, testing::tiny_toml(folder.file("none.h5")));
  const auto missing = testing::run_cbwc(folder, "bench loader " + config);
  CHECK(missing.exit_code == 2);
  testing::write_bytes(config, testing::tiny_toml(testing::write_tiny_data(folder)));
  const auto done = testing::run_cbwc(folder, "bench loader " + config +
                                                  " --workers 1 --batches 2 --steps 1 --json " +
                                                  folder.file("l.json"));
  INFO(done.err);
  CHECK(done.exit_code == 0);
  const nlohmann::json json = nlohmann::json::parse(testing::read_bytes(folder.file("l.json")));
  CHECK(json.at("command") == "bench loader");
  CHECK(json.at("results").at("rows").size() == 1);
}

TEST_CASE("bench ops: more ops on request, each beside the copy") {
  OpsBenchOptions o;
  o.shapes = {"8x64", "8x24"};
  o.repeats = 2;
  std::set<std::string> plain, names;
  for (const OpsBenchRow& row : bench_ops(o)) plain.insert(row.name);
  CHECK(plain.size() == 6);
  o.more = true;
  bool rotary_at_24 = false;
  for (const OpsBenchRow& row : bench_ops(o)) {
    names.insert(row.name);
    rotary_at_24 |= row.name == "rotary_forward" && row.cols == 24;
    CHECK(row.over_copy > 0);
  }
  CHECK(names.size() == 12);
  CHECK(!rotary_at_24);  // no whole head
}

TEST_CASE("bench ops: patch embeddings over their products, thin products over reading weights") {
  OpsBenchOptions o;
  o.repeats = 2;
  const std::vector<ProductBenchRow> rows = bench_products(o);
  REQUIRE(rows.size() == 14);  // two embeddings there and back, five weights at two sizes
  for (const ProductBenchRow& r : rows) {
    INFO(r.name << " of " << r.of);
    const bool conv = r.name == "conv2d_forward" || r.name == "conv2d_backward";
    CHECK((conv || r.name == "thin_product"));
    CHECK(r.floor == (conv ? "its product" : "reading the weights"));
    if (!conv) CHECK((r.m == 1 || r.m == 8));
    CHECK(r.floor_ms > 0);
    CHECK(r.over_floor == Approx(r.median_ms / r.floor_ms));
    CHECK(r.gflop_per_s == Approx(2e-6 * static_cast<double>(r.m * r.n * r.k) / r.median_ms));
  }
  // A patch of Swin-T is 3 x 4 x 4 numbers, an image has 56 x 56 of them.
  CHECK((rows[2].m == 96 && rows[2].n == 56 * 56 && rows[2].k == 48));
  CHECK((rows[13].m == 8 && rows[13].n == 50257 && rows[13].k == 768));
  // One product, not all that a call does: eight rows of the head are no longer than a second.
  CHECK(rows[13].median_ms < 1000);
  CHECK(products_bench_json(rows)[4].at("of") == "GPT-2 qkv");
  CHECK_THAT(products_bench_table(rows), ContainsSubstring("8x50257x768"));
  CHECK(products_bench_table({}).empty());
}

TEST_CASE("bench ops: a read pass adds up every number, the last few too") {
  for (const int64_t n : {int64_t{0}, int64_t{7}, kReadChunk, 2 * kReadChunk + 5}) {
    std::vector<double> numbers(static_cast<size_t>(n)), sums;
    std::iota(numbers.begin(), numbers.end(), 1.0);
    read_pass(numbers.data(), n, sums);
    const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
    CHECK(sum == static_cast<double>(n * (n + 1) / 2));
  }
}
