// What a script finds in every row of every bench command's JSON.
#include "experiments/bench_row.h"

#include "experiments/bench.h"
#include "experiments/bench_decode.h"
#include "experiments/bench_infer.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

void check_row(const nlohmann::json& row) {
  INFO(row.dump());
  for (const char* key : {"name", "arm", "batch", "seq", "rows", "cols", "dtype", "median_ms",
                          "p10_ms", "p90_ms", "gb_per_s", "gflop_per_s", "peak_mb"})
    CHECK(row.contains(key));
  CHECK(row.at("name").is_string());
}

}  // namespace

TEST_CASE("bench rows have every key of the contract, null where there is no such number") {
  const nlohmann::json row = bench_row({{"name", "x"}, {"cols", 7}, {"more", true}});
  check_row(row);
  CHECK((row.at("cols") == 7 && row.at("rows").is_null() && row.at("more") == true));
  check_row(ops_bench_json({OpsBenchRow{}}).at("rows").at(0));
  check_row(products_bench_json({ProductBenchRow{}}).at(0));
  TrainBench train;
  train.rows.emplace_back();
  check_row(train_bench_json(train).at("rows").at(0));
  LoaderBench loader;
  loader.rows.emplace_back();
  check_row(loader_bench_json(loader).at("rows").at(0));
  InferBench infer;
  infer.rows.emplace_back();
  infer.calls.emplace_back();
  infer.decode.emplace_back();
  const nlohmann::json json = infer_bench_json({infer});
  for (const char* list : {"rows", "norm_calls", "decode"}) check_row(json.at(list).at(0));
}
