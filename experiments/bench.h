// Measured tables: medians over repeats, everything that is compared interleaved in one process.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/config.h"

namespace cbwc {

// ---- bench ops: the norms and the centring against a plain copy of the same bytes ---------------
struct OpsBenchOptions {
  std::vector<std::string> shapes;  // "4096x768"; empty: the default list
  std::vector<std::string> dtypes = {"float32"};
  int repeats = 30;
};
struct OpsBenchRow {
  std::string name, dtype;
  int64_t rows = 0, cols = 0;
  double median_ms = 0, p10_ms = 0, p90_ms = 0;
  double gb_per_s = 0;   // bytes that must move at least, as a copy's: one read and one write
  double over_copy = 0;  // median / the copy's median in the same run
};
std::vector<OpsBenchRow> bench_ops(const OpsBenchOptions& options);
nlohmann::json ops_bench_json(const std::vector<OpsBenchRow>& rows);
std::string ops_bench_table(const std::vector<OpsBenchRow>& rows);

// ---- bench train: one whole step against the time of its matrix products ------------------------
struct TrainBenchOptions {
  std::vector<std::string> arms = {"layernorm", "rmsnorm", "cbwc_rmsnorm"};
  int64_t batch = 4, seq = 256;
  int steps = 7, warmup = 2;
  double dropout = 0;  // in place of the config's; below 0: the config's
};
struct GemmTime {
  int64_t m, n, k;
  std::string transposes;  // "nn", "nt", "tn", "tt"
  int64_t calls;
  double best_ms, gflop_per_s;
};
struct OpTime {
  std::string name;  // "linear backward"
  double ms;         // per step
};
struct TrainBenchRow {
  std::string arm;
  double median_ms = 0, p10_ms = 0, p90_ms = 0;
  double forward_ms = 0, backward_ms = 0, norm_ms = 0, update_ms = 0;  // medians
  double matmul_flop = 0, gemm_floor_ms = 0, over_gemm_floor = 0;
  double tokens_per_s = 0, peak_mb = 0, loss = 0;
  std::vector<GemmTime> gemms;
  std::vector<OpTime> ops;  // where the time goes, from one extra step with a clock at every op
};
struct TrainBench {
  std::vector<TrainBenchRow> rows;
  double cube_gflop_per_s = 0;  // a 2048-cube product
  double rss_peak_mb = 0;       // of the whole process, all arms
  int64_t batch = 0, seq = 0;
  std::string dtype, note;
};
TrainBench bench_train(Config config, const TrainBenchOptions& options);
nlohmann::json train_bench_json(const TrainBench& bench);
std::string train_bench_table(const TrainBench& bench);

}  // namespace cbwc
