#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include "core/allocator.h"
#include "experiments/bench.h"
#include "experiments/bench_infer_arms.h"
#include "experiments/model_setup.h"
#include "layers/compare.h"

namespace cbwc {
namespace {

using Clock = std::chrono::steady_clock;

size_t live() { return memory_stats(Device::cpu).live; }

Tensor run(Arm& arm, const ModelInput& input) {
  const TapeScope no_tape(nullptr);
  return arm.model->logits(input, Context{}).value();
}

void timed_run(Arm& arm, const ModelInput& input, InferRow& row) {
  reset_peak(Device::cpu);
  const size_t before = live();
  const auto start = Clock::now();
  run(arm, input);
  row.ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  const size_t peak = memory_stats(Device::cpu).peak - before + bytes_of(*arm.model);
  row.peak_mb = std::max(row.peak_mb, static_cast<double>(peak) / 1e6);
}

void summarize(std::vector<InferRow>& rows, double floor, double fold_ms) {
  for (InferRow& row : rows) {
    row.median_ms = median(row.ms);
    row.p10_ms = quantile(row.ms, 0.1);
    row.p90_ms = quantile(row.ms, 0.9);
    row.tokens_per_s = 1000.0 * static_cast<double>(row.tokens) / row.median_ms;
    row.samples_per_s = 1000.0 * static_cast<double>(row.batch) / row.median_ms;
    row.speedup = paired_ratio(rows.front().ms, row.ms);
    row.ceiling = paired_ratio(rows.front().ms, rows.back().ms);
    row.share_of_ceiling = share_of_ceiling(row.speedup, row.ceiling);
    row.gemm_floor_ms = floor;
    row.over_gemm_floor = row.median_ms / floor;
    if (row.arm == "folded" && row.speedup.low > 1)
      row.pays_after = fold_ms / (row.median_ms * (row.speedup.ratio - 1));
  }
}

std::vector<InferRow> measure(std::vector<Arm>& arms, const ModelInput& input, InferRow row,
                              const InferBenchOptions& options, GemmFloor& floor,
                              InferBench& bench) {
  std::vector<InferRow> rows;
  std::vector<Tensor> warm;
  std::vector<GemmShape> products;
  for (Arm& arm : arms) {
    start_gemm_log();
    warm.push_back(run(arm, input));
    products = stop_gemm_log();
    row.arm = arm.name;
    rows.push_back(row);
  }
  bench.fold_difference = std::max(bench.fold_difference, relative_difference(warm[0], warm[1]));
  warm.clear();
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  for (int r = 0; r < options.least_repeats || seconds() < options.seconds; ++r)
    for (const size_t at : arm_order(r, arms.size())) timed_run(arms[at], input, rows[at]);
  summarize(rows, floor_ms(floor.times(products)), bench.fold_ms);
  return rows;
}

// Rows and columns of what the norms of a pass see, the few rows of a head left out.
std::set<std::pair<int64_t, int64_t>> norm_sizes(const Config::Model& m, const InferShape& shape) {
  if (m.family == "vit") {
    const int64_t patches = (m.image / m.patch) * (m.image / m.patch);
    return {{shape.batch * (patches + (m.pool == "class_token" ? 1 : 0)), m.dim}};
  }
  if (m.family != "swin") return {{shape.batch * shape.seq, m.dim}};
  std::set<std::pair<int64_t, int64_t>> sizes;
  int64_t side = (m.image + m.patch - 1) / m.patch, dim = m.dim;
  for (size_t stage = 0; stage < m.depths.size(); ++stage) {
    if (stage > 0) {  // four neighbours merge
      side = (side + 1) / 2;
      sizes.insert({shape.batch * side * side, 4 * dim});
      dim *= 2;
    }
    sizes.insert({shape.batch * side * side, dim});
  }
  return sizes;
}

// The norm ops alone, at each size that a shape asks for.
std::vector<NormCallRow> norm_calls(const std::vector<InferShape>& shapes, const Config& config) {
  std::set<std::pair<int64_t, int64_t>> sizes;
  for (const InferShape& s : shapes) sizes.merge(norm_sizes(config.model, s));
  OpsBenchOptions options;
  options.dtypes = {config.model.dtype};
  options.forward_only = true;
  for (const auto& [rows, cols] : sizes) options.shapes.push_back(fmt::format("{}x{}", rows, cols));
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

// Says what is random, and lengthens the context where a shape asks for more.
std::string note_of(const ArmSource& source, const std::vector<InferShape>& shapes,
                    int64_t& context) {
  std::string note = reads_images(source.config) ? "noise as images" : "random tokens";
  note = (source.trained ? "the run's weights, " : "random weights, ") + note;
  if (source.folded)
    note += "; folded: as it is in the folder, layernorm: the same before the fold";
  int64_t longest = 0;
  for (const InferShape& s : shapes) longest = std::max(longest, s.seq);
  if (longest > context)
    note += fmt::format("; positions for {} tokens, the config has {}", longest, context);
  context = std::max(context, longest);
  return note;
}

void check_trained(const Config& config, const InferBenchOptions& options,
                   const LoadedModel& trained, bool folded) {
  CBWC_CHECK(config.model.norm == "layernorm" && trained.folds.empty(),
             "bench infer: ", trained.folder, " was trained with model.norm = ", config.model.norm,
             ", expected layernorm, which is what the arms are compared with");
  CBWC_CHECK(!folded || !(options.affine || options.carry_mean || options.fold.auxiliary_centring),
             "bench infer: ", trained.folder,
             " is folded already; --affine, --carry-mean and --auxiliary-centring are for a model "
             "that is folded here");
}

void make_room(int64_t& context, const std::vector<InferShape>& shapes, int64_t decode) {
  for (const InferShape& s : shapes) context = std::max(context, s.seq + decode);
}

void add_decode(const std::vector<Arm>& arms, const Tensor& ids, const DecodeOptions& options,
                InferBench& bench) {
  std::vector<DecodeArm> models;
  for (const Arm& arm : arms) models.push_back({arm.name, arm.model.get()});
  for (DecodeRow& row : bench_decode(models, ids, options)) bench.decode.push_back(std::move(row));
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

InferBench bench_infer(const Config& config, const InferBenchOptions& options,
                       const LoadedModel* trained, const LoadedModel* folded) {
  InferBench bench;
  bench.model = config.run.name;
  bench.family = config.model.family;
  bench.dtype = config.model.dtype;
  bench.plan = plan_infer(config, options, trained ? most_positions(config) : 0);
  if (!bench.plan.skipped.empty()) return bench;
  ArmSource source{config, trained ? trained->shape : random_data(config, 1, 1).shape, trained,
                   folded};
  if (trained) check_trained(config, options, *trained, folded != nullptr);
  std::vector<InferShape> shapes;
  for (const InferPlan::Row& row : bench.plan.rows)
    if (row.skipped.empty()) shapes.push_back(row.shape);
  bench.note = note_of(source, shapes, source.config.model.context);
  const int64_t decode = task_of(config) == Task::language_model ? options.decode : 0;
  if (!trained) make_room(source.config.model.context, shapes, decode);
  if (options.float64 && bench.plan.float64_gb <= bench.plan.free_gb)
    compare_fold_in_float64(source, options, bench);
  else if (options.float64)
    bench.note += "; too large to compare in float64 here";
  release_cached(Device::cpu);
  std::vector<Arm> arms = build_arms(source, options, bench);
  compare_fold(arms, source, bench);
  if (!shapes.empty()) bench.calls = norm_calls(shapes, config);
  GemmFloor floor(parse_dtype(config.model.dtype));
  const int64_t languages = task_of(config) == Task::translation ? 2 : 1;
  for (const InferShape& shape : shapes) {
    InferRow row;
    row.batch = shape.batch;
    row.seq = shape.seq;
    row.tokens = languages * shape.batch * shape.seq;
    const ModelInput input = random_input(source, shape);
    for (InferRow& r : measure(arms, input, row, options, floor, bench))
      bench.rows.push_back(std::move(r));
    if (decode == 0) continue;
    if (shape.seq + decode <= source.config.model.context)
      add_decode(arms, input.ids, {decode, options.seconds}, bench);
    else
      bench.note += fmt::format("; no positions for {} tokens after {}", decode, shape.seq);
  }
  arms.clear();
  release_cached(Device::cpu);
  return bench;
}

}  // namespace cbwc
