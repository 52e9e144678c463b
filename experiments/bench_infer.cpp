#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <set>

#include "core/allocator.h"
#include "core/rng.h"
#include "experiments/bench.h"
#include "experiments/model_graph.h"
#include "experiments/model_setup.h"
#include "layers/compare.h"
#include "layers/folding.h"
#include "layers/gpt.h"

namespace cbwc {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kMostTokens = 16384;       // of one pass
constexpr int64_t kSmallModel = 10'000'000;  // parameters up to which 1 x 16384 is a default shape

struct InferShape {
  int64_t batch, seq;
};

struct Arm {
  std::string name;
  std::unique_ptr<Gpt> model;
  size_t own = 0;  // bytes of its parameters
};

size_t live() { return memory_stats(Device::cpu).live; }

InferShape parse_infer_shape(const std::string& text) {
  long long batch = 0, seq = 0;
  char rest = 0;
  CBWC_CHECK(std::sscanf(text.c_str(), "%lldx%lld%c", &batch, &seq, &rest) == 2 && batch > 0 &&
                 seq > 0 && batch <= kMostTokens && seq <= kMostTokens &&
                 batch * seq <= kMostTokens,
             "bench infer: shape '", text, "', expected BATCHxSEQ such as 8x512 with at most ",
             kMostTokens, " tokens");
  return {batch, seq};
}

// Without the tables, whose size has no bearing on the time of a pass.
int64_t block_parameters(const Config::Model& m) { return 12 * m.layers * m.dim * m.dim; }

std::vector<InferShape> shapes_of(const Config& config, const InferBenchOptions& options) {
  std::vector<InferShape> shapes;
  for (const std::string& text : options.shapes) shapes.push_back(parse_infer_shape(text));
  if (!shapes.empty()) return shapes;
  for (const int64_t batch : {1, 8})
    for (const int64_t seq : {128, 512, 1024, 2048, 4096})
      if (batch * seq <= kMostTokens) shapes.push_back({batch, seq});
  if (block_parameters(config.model) <= kSmallModel) shapes.push_back({1, 16384});
  return shapes;
}

// Returns how many norms became RMSNorms.
int64_t fold(Gpt& model) {
  const FoldPlan plan = plan_fold(detect(record_graph(model, false)), {});
  CBWC_CHECK(!plan.empty(), "bench infer: no LayerNorm of this model folds (cbwc detect says why)");
  apply_fold(model, plan);
  return static_cast<int64_t>(plan.norms.size());
}

// The same numbers in all three.
std::vector<Arm> build_arms(GptConfig config, int64_t& norms) {
  std::vector<Arm> arms;
  for (const char* name : {"layernorm", "folded", "none"}) {
    const size_t before = live();
    config.norm = name == std::string("none") ? Norm::none : Norm::layernorm;
    Arm arm{name, std::make_unique<Gpt>(config, 1)};
    randomize_norms(*arm.model, 2);
    if (arm.name == "folded") norms = fold(*arm.model);
    arm.own = live() - before;
    arms.push_back(std::move(arm));
  }
  return arms;
}

Tensor random_ids(const InferShape& shape, int64_t vocab) {
  Rng rng(1, "bench infer");
  std::vector<int32_t> ids(static_cast<size_t>(shape.batch * shape.seq));
  for (int32_t& id : ids) id = static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocab)));
  return Tensor::from(ids, {shape.batch, shape.seq});
}

Tensor run(Arm& arm, const Tensor& ids) {
  const TapeScope no_tape(nullptr);
  return arm.model->last_logits(ids, Context{}).value();
}

void timed_run(std::vector<Arm>& arms, size_t at, const Tensor& ids, InferRow& row) {
  size_t others = 0;
  for (size_t i = 0; i < arms.size(); ++i)
    if (i != at) others += arms[i].own;
  reset_peak(Device::cpu);
  const auto start = Clock::now();
  run(arms[at], ids);
  row.ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  row.peak_mb =
      std::max(row.peak_mb, static_cast<double>(memory_stats(Device::cpu).peak - others) / 1e6);
}

void summarize(std::vector<InferRow>& rows, double floor) {
  for (InferRow& row : rows) {
    row.median_ms = median(row.ms);
    row.p10_ms = quantile(row.ms, 0.1);
    row.p90_ms = quantile(row.ms, 0.9);
    row.tokens_per_s = 1000.0 * static_cast<double>(row.batch * row.seq) / row.median_ms;
    row.speedup = paired_ratio(rows.front().ms, row.ms);
    row.ceiling = paired_ratio(rows.front().ms, rows.back().ms);
    row.share_of_ceiling = share_of_ceiling(row.speedup, row.ceiling);
    row.gemm_floor_ms = floor;
    row.over_gemm_floor = row.median_ms / floor;
  }
}

std::vector<InferRow> measure(std::vector<Arm>& arms, const InferShape& shape,
                              const InferBenchOptions& options, GemmFloor& floor,
                              double& fold_difference) {
  const Tensor ids = random_ids(shape, arms[0].model->config().vocab);
  std::vector<InferRow> rows;
  std::vector<Tensor> warm;
  std::vector<GemmShape> products;
  for (Arm& arm : arms) {
    start_gemm_log();
    warm.push_back(run(arm, ids));
    products = stop_gemm_log();
    InferRow row;
    row.arm = arm.name;
    row.batch = shape.batch;
    row.seq = shape.seq;
    rows.push_back(row);
  }
  fold_difference = std::max(fold_difference, relative_difference(warm[0], warm[1]));
  warm.clear();
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  for (int r = 0; r < options.least_repeats || seconds() < options.seconds; ++r)
    for (const size_t at : arm_order(r, arms.size())) timed_run(arms, at, ids, rows[at]);
  summarize(rows, floor_ms(floor.times(products)));
  return rows;
}

// The norm ops alone, at each number of rows that a shape asks for.
std::vector<NormCallRow> norm_calls(const std::vector<InferShape>& shapes, const Config& config) {
  std::set<int64_t> counts;
  for (const InferShape& s : shapes) counts.insert(s.batch * s.seq);
  OpsBenchOptions options;
  options.dtypes = {config.model.dtype};
  options.forward_only = true;
  for (const int64_t rows : counts)
    options.shapes.push_back(fmt::format("{}x{}", rows, config.model.dim));
  std::vector<NormCallRow> out;
  std::vector<double> layer_norm;
  for (const OpsBenchRow& op : bench_ops(options)) {
    if (op.name == "copy") continue;
    const bool reference = op.name == "layer_norm_forward";
    if (reference) layer_norm = op.ms;
    out.push_back({reference ? "layernorm" : "folded", op.rows, op.cols, op.median_ms, op.p10_ms,
                   op.p90_ms, op.gb_per_s, paired_ratio(layer_norm, op.ms)});
  }
  return out;
}

}  // namespace

std::vector<size_t> arm_order(int repeat, size_t arms) {
  const size_t r = static_cast<size_t>(repeat);
  std::vector<size_t> order;
  for (size_t i = 0; i < arms; ++i) order.push_back((i + r) % arms);
  if (r / arms % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

double share_of_ceiling(const PairedRatio& speedup, const PairedRatio& ceiling) {
  if (!(ceiling.low > 1)) return std::numeric_limits<double>::quiet_NaN();
  return (1 - 1 / speedup.ratio) / (1 - 1 / ceiling.ratio);
}

InferBench bench_infer(const Config& config, const InferBenchOptions& options) {
  const std::vector<InferShape> shapes = shapes_of(config, options);
  GptConfig gpt = gpt_config(config, random_data(config, 1, 1).shape.vocab);
  int64_t longest = 0;
  for (const InferShape& s : shapes) longest = std::max(longest, s.seq);
  InferBench bench;
  bench.model = config.run.name;
  bench.dtype = config.model.dtype;
  bench.note = "random weights, random tokens";
  if (longest > gpt.context)
    bench.note += fmt::format("; positions for {} tokens, the config has {}", longest, gpt.context);
  gpt.context = std::max(gpt.context, longest);
  std::vector<Arm> arms = build_arms(gpt, bench.norms);
  bench.calls = norm_calls(shapes, config);
  GemmFloor floor(gpt.dtype);
  for (const InferShape& shape : shapes)
    for (InferRow& row : measure(arms, shape, options, floor, bench.fold_difference))
      bench.rows.push_back(std::move(row));
  return bench;
}

}  // namespace cbwc
