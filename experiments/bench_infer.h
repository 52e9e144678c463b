// bench infer: one forward pass with LayerNorm, with the same weights folded, and without any norm
// (the ceiling); where not every norm folds, also with every norm an RMSNorm, which is another
// function: its row is for timing only. All arms interleaved in one process.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "data/json.h"
#include "experiments/bench_decode.h"
#include "experiments/config.h"
#include "experiments/statistics.h"
#include "layers/folding.h"

namespace cbwc {

struct LoadedModel;

inline constexpr const char* kAllRmsNorm = "all RMSNorm, not exact, timing only";
struct InferBenchOptions {
  std::vector<std::string> shapes;  // "8x512", BATCHxSEQ, images "8"; empty: a default list
  double seconds = 5;               // of timed passes for each shape, all arms together
  int least_repeats = 6;            // of each arm, whatever the time
  double most_seconds = 600;        // a shape whose least repeats would take longer is left out
  double memory_gb = 0;             // a model that needs more is left out; 0: what is free
  FoldOptions fold = {};            // of the folded arm
  bool carry_mean = false, affine = false;
  int64_t decode = 32;   // of decoders: tokens after each shape's prompt (bench_decode.h); 0: none
  bool float64 = false;  // also fold and compare in float64, where the memory is enough
  bool timing = true;    // false: fold and compare alone
};

struct InferShape {
  int64_t batch = 0, seq = 0;  // seq 0: images
};

// What a run would do, before anything is built; times and sizes are estimates.
struct InferPlan {
  struct Row {
    InferShape shape;
    double pass_ms = 0, seconds = 0;  // of one pass; of all repeats of all arms
    std::string skipped;              // why it will not be run
  };
  std::string model;
  double needed_gb = 0, free_gb = 0;
  double float64_gb = 0;  // what the comparison in float64 needs
  std::string skipped;    // why the whole model will not be run
  std::vector<Row> rows;
  double seconds() const;  // of the rows that will be run
};
// `longest`: tokens that the model has positions for; 0: random weights, as many as are asked for.
InferPlan plan_infer(const Config& config, const InferBenchOptions& options, int64_t longest = 0);
std::string infer_plan_text(const InferPlan& plan);
nlohmann::json infer_plans_json(const std::vector<InferPlan>& plans);  // `results` of --plan
// Tokens that weights of this config have positions for; 0: any number.
int64_t most_positions(const Config& config);

// One norm's forward pass alone, on the rows that the model's norms see.
struct NormCallRow {
  std::string arm;
  int64_t rows = 0, cols = 0;
  double median_ms = 0, p10_ms = 0, p90_ms = 0, gb_per_s = 0;
  PairedRatio speedup;  // LayerNorm's time over this arm's
};
struct InferRow {
  std::string arm;             // layernorm, folded, kAllRmsNorm, none
  int64_t batch = 0, seq = 0;  // seq: 0 for images
  int64_t tokens = 0;          // of a pass, both languages' in a translation
  std::vector<double> ms;      // repeat by repeat; the arms' runs were neighbours
  double median_ms = 0, p10_ms = 0, p90_ms = 0, tokens_per_s = 0, peak_mb = 0;
  PairedRatio speedup, ceiling;  // LayerNorm's time over this arm's, and over that without norms
  double share_of_ceiling = 0;   // of the time that no norm saves; nan where that is not above 0
  double gemm_floor_ms = 0, over_gemm_floor = 0;  // attention's own products are not in the floor
  double samples_per_s = 0;
  double pays_after = 0;  // passes until folding has paid its time back; 0: never, or within noise
};
struct InferBench {
  std::string model, dtype, note;
  int64_t norms = 0;           // that became RMSNorms
  int64_t all_norms = 0;       // LayerNorms of the model
  double fold_ms = 0;          // detecting and folding; nan: the folder was folded before
  double fold_difference = 0;  // folded against LayerNorm: largest difference / largest logit
  std::vector<NormCallRow> calls;
  std::vector<InferRow> rows;
  std::string family;
  int64_t auxiliary = 0;  // more norms that an inserted centring would fold
  // Numbers in the model's norms, and how many of them `--affine` moves into the readers' weights.
  int64_t norm_numbers = 0, movable_norm_numbers = 0;
  // Over all positions of a small input, in the model's type.
  int64_t compared_positions = 0;
  double max_abs_difference = 0, max_rel_difference = 0, argmax_agreement = 0;
  double float64_rel_difference = std::numeric_limits<double>::quiet_NaN();  // nan: not asked for
  InferPlan plan;  // with what was left out; a whole model left out has no rows
  std::vector<DecodeRow> decode = {};
};
// `trained`: measure its weights, unfolded LayerNorm ones, in place of random ones. `folded`: the
// folded arm, which `trained` was before (unfold.h); null: `trained` is folded here.
InferBench bench_infer(const Config& config, const InferBenchOptions& options,
                       const LoadedModel* trained = nullptr, const LoadedModel* folded = nullptr);
// The arms of one repeat in the order they run: the order turns from repeat to repeat and is
// reversed after each full turn, so that three arms go through all six orders.
std::vector<size_t> arm_order(int repeat, size_t arms);
double share_of_ceiling(const PairedRatio& speedup, const PairedRatio& ceiling);
nlohmann::json infer_bench_json(const std::vector<InferBench>& models);
std::string infer_bench_table(const InferBench& bench);
// As Markdown tables for a README: what each model's fold did, every shape's times, the norm calls,
// and bench_peer.py's rows beside ours; from `results` of one or more runs, the last one counting.
std::string infer_markdown(const std::vector<nlohmann::json>& results);
// The speedup over LayerNorm along the sequence length, a curve for each model: SVG text from
// `results` of one or more runs; empty without gnuplot, or when they hold no such row.
std::string infer_plot_svg(const std::vector<nlohmann::json>& results);

}  // namespace cbwc
