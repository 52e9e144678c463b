// Measured tables: medians over repeats, everything that is compared interleaved in one process.
#pragma once
#include <string>
#include <vector>

#include "data/json.h"
#include "experiments/bench_gemm.h"
#include "experiments/config.h"
#include "experiments/statistics.h"

namespace cbwc {

// ---- bench ops: the norms and the centring against a plain copy of the same bytes ---------------
struct OpsBenchOptions {
  std::vector<std::string> shapes;  // "4096x768"; empty: the default list
  std::vector<std::string> dtypes = {"float32"};
  int repeats = 30;
  bool forward_only = false;
  bool more = false;  // also the forward of GELU, tanh, sigmoid, gather_rows and rotary
};
// An op with a matrix product inside, at the shape of a known model.
struct ProductBenchRow {
  std::string name, of;  // conv2d_forward of "Swin-T"
  int64_t m = 0, n = 0, k = 0;
  std::string floor;  // what `floor_ms` is the time of, in the same run
  std::string dtype = {};
  double median_ms = 0, p10_ms = 0, p90_ms = 0, gflop_per_s = 0;  // of one product
  double floor_ms = 0, over_floor = 0;
};
struct OpsBenchRow {
  std::string name, dtype;
  int64_t rows = 0, cols = 0;
  double median_ms = 0, p10_ms = 0, p90_ms = 0;
  double gb_per_s = 0;          // tensors that must move: forward and copy 2, backward 3
  double over_copy = 0;         // median / that of a copy of x, in the same run
  double over_equal_bytes = 0;  // the same over a copy that moves as many bytes as the op
  double cold_ms = 0, cold_over_copy = 0;  // median of single calls with nothing in the caches
  std::vector<double> ms = {};             // repeat by repeat
};
std::vector<OpsBenchRow> bench_ops(const OpsBenchOptions& options);
nlohmann::json ops_bench_json(const std::vector<OpsBenchRow>& rows);
std::string ops_bench_table(const std::vector<OpsBenchRow>& rows);
// The patch embeddings of ViT-B/16 and Swin-T over their products alone; the products of GPT-2's
// decoding, of 1 and 8 rows, over reading their weights once. Of `options` dtypes and repeats.
std::vector<ProductBenchRow> bench_products(const OpsBenchOptions& options);
nlohmann::json products_bench_json(const std::vector<ProductBenchRow>& rows);
std::string products_bench_table(const std::vector<ProductBenchRow>& rows);

// ---- bench train: one whole step against the time of its matrix products ------------------------
struct TrainBenchOptions {
  std::vector<std::string> arms = {"layernorm", "rmsnorm", "cbwc_rmsnorm"};
  int64_t batch = 4, seq = 0;  // tokens of a sample; 0: 256 or the context; images have none
  int steps = 7, warmup = 2;
  // In place of the config's dropout and attention_dropout, where 0 also turns drop_path off; below
  // 0: all three as in the config.
  double dropout = 0;
};
struct OpTime {
  std::string name;  // "linear backward"
  double ms;         // per step
};
struct TrainBenchRow {
  std::string arm;
  double median_ms = 0, p10_ms = 0, p90_ms = 0;
  double forward_ms = 0, backward_ms = 0, norm_ms = 0, update_ms = 0;  // medians
  double matmul_flop = 0, gemm_floor_ms = 0;  // the floor: of the best of all rounds
  double over_gemm_floor = 0;                 // the median step over it
  // Median of every step over the products timed just before it: on a machine whose speed drifts
  // from minute to minute, only these two saw the same machine.
  double paired_over_gemm_floor = 0;
  double tokens_per_s = 0;  // read, both languages' in a translation; 0 for images
  double samples_per_s = 0, targets_per_s = 0;  // targets: what the loss is a sum over
  double peak_mb = 0, loss = 0;
  std::vector<GemmTime> gemms;
  std::vector<OpTime> ops;  // where the time goes, from one extra step with a clock at every op
};
struct TrainBench {
  std::vector<TrainBenchRow> rows;
  double cube_gflop_per_s = 0;  // a 2048-cube product
  double rss_peak_mb = 0;       // of the whole process, all arms
  int64_t batch = 0, seq = 0;   // seq: 0 for images
  int64_t tokens = 0;           // of a batch, as in tokens_per_s
  int64_t patches = 0;          // of an image
  std::string dtype, note;
};
TrainBench bench_train(const Config& config, const TrainBenchOptions& options);
nlohmann::json train_bench_json(const TrainBench& bench);
std::string train_bench_table(const TrainBench& bench);

// ---- bench loader: the training stream's samples beside the step's, each with nobody else working
struct LoaderBenchOptions {
  std::vector<int64_t> workers = {1, 2};
  int64_t batches = 50;  // timed, of each number of workers
  int steps = 3;
};
struct LoaderRow {
  int64_t workers = 0, samples = 0;
  double samples_per_s = 0;
  bool keeps_up = false;  // at least as many as the step takes
};
struct LoaderBench {
  int64_t batch = 0;
  double step_samples_per_s = 0;
  std::string note;  // where the data come from
  std::vector<LoaderRow> rows;
};
LoaderBench bench_loader(const Config& config, const LoaderBenchOptions& options);
nlohmann::json loader_bench_json(const LoaderBench& bench);
std::string loader_bench_table(const LoaderBench& bench);

}  // namespace cbwc
