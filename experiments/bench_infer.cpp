#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "core/allocator.h"
#include "core/rng.h"
#include "experiments/bench.h"
#include "experiments/model_graph.h"
#include "experiments/model_setup.h"
#include "layers/compare.h"
#include "layers/folding.h"
#include "layers/norm.h"

namespace cbwc {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kMostTokens = 16384;       // of one pass
constexpr int64_t kSmallModel = 10'000'000;  // parameters up to which 1 x 16384 is a default shape

struct InferShape {
  int64_t batch, seq;  // seq 0: images
};

struct Arm {
  std::string name;
  std::unique_ptr<Model> model;
};

size_t live() { return memory_stats(Device::cpu).live; }

InferShape parse_infer_shape(const std::string& text, bool images) {
  long long batch = 0, seq = 0;
  char rest = 0;
  const int read = std::sscanf(text.c_str(), "%lldx%lld%c", &batch, &seq, &rest);
  CBWC_CHECK((read == 2 || (read == 1 && images && text.find('x') == std::string::npos)) &&
                 batch > 0 && (read == 1 || seq > 0) && batch <= kMostTokens &&
                 seq <= kMostTokens && batch * seq <= kMostTokens,
             "bench infer: shape '", text, "', expected BATCHxSEQ such as 8x512 with at most ",
             kMostTokens, " tokens", images ? ", or BATCH, for images have no sequence" : "");
  return {batch, images ? 0 : seq};
}

// Without the tables, whose size has no bearing on the time of a pass.
int64_t block_parameters(const Config::Model& m) { return 12 * m.layers * m.dim * m.dim; }

std::vector<InferShape> shapes_of(const Config& config, const InferBenchOptions& options) {
  const bool images = reads_images(config);
  std::vector<InferShape> shapes;
  for (const std::string& text : options.shapes) {
    const InferShape shape = parse_infer_shape(text, images);
    const bool known = std::any_of(shapes.begin(), shapes.end(), [&](const InferShape& s) {
      return s.batch == shape.batch && s.seq == shape.seq;
    });
    if (!known) shapes.push_back(shape);
  }
  if (!shapes.empty()) return shapes;
  if (images) return {{1, 0}, {8, 0}};
  for (const int64_t batch : {1, 8})
    for (const int64_t seq : {128, 512, 1024, 2048, 4096})
      if (batch * seq <= kMostTokens) shapes.push_back({batch, seq});
  if (block_parameters(config.model) <= kSmallModel) shapes.push_back({1, 16384});
  return shapes;
}

void fold(Model& model, InferBench& bench) {
  const auto start = Clock::now();
  const Detection found = detect(record_graph(model, false));
  const FoldPlan plan = plan_fold(found, {});
  CBWC_CHECK(!plan.empty(), "bench infer: no LayerNorm of this model folds (cbwc detect says why)");
  apply_fold(model, plan);
  bench.fold_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  bench.norms = std::ssize(plan.norms);
  bench.all_norms = std::ssize(found.norms);
}

size_t bytes_of(const Model& model) {
  size_t bytes = 0;
  for (const ParameterPtr& p : model.parameters()) bytes += p->value().bytes();
  return bytes;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && a.is_contiguous() &&
         b.is_contiguous() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// What is equal is kept once: a large model's arms need little more memory than one.
void share_equal(Model& model, const Model& first) {
  std::map<std::string, ParameterPtr> known;
  for (const ParameterPtr& p : first.parameters()) known[p->name()] = p;
  for (const ParameterPtr& p : model.parameters()) {
    const auto found = known.find(p->name());
    if (found != known.end() && same_bytes(p->value(), found->second->value()))
      p->mutate() = found->second->value();
  }
}

std::unique_ptr<Model> arm_model(Config config, Norm norm, const DataShape& shape) {
  config.model.norm = norm_name(norm);
  std::unique_ptr<Model> model = build_model(config, shape, 1);
  randomize_norms(*model, 2);
  return model;
}

// The same numbers in all arms; LayerNorm first, the ceiling last.
std::vector<Arm> build_arms(const Config& config, const DataShape& shape, InferBench& bench) {
  std::vector<Arm> arms;
  arms.push_back({"layernorm", arm_model(config, Norm::layernorm, shape)});
  const auto add = [&](const std::string& name, std::unique_ptr<Model> model) {
    share_equal(*model, *arms[0].model);
    arms.push_back({name, std::move(model)});
  };
  std::unique_ptr<Model> folded = arm_model(config, Norm::layernorm, shape);
  fold(*folded, bench);
  add("folded", std::move(folded));
  if (bench.norms < bench.all_norms) add(kAllRmsNorm, arm_model(config, Norm::rmsnorm, shape));
  add("none", arm_model(config, Norm::none, shape));
  return arms;
}

Tensor random_ids(const InferShape& shape, int64_t vocab, const char* purpose) {
  Rng rng(1, purpose);
  std::vector<int32_t> ids(static_cast<size_t>(shape.batch * shape.seq));
  for (int32_t& id : ids) id = static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocab)));
  return Tensor::from(ids, {shape.batch, shape.seq});
}

// Logits of the last position alone, where a task has positions.
ModelInput random_input(const Config& config, const DataShape& data, const InferShape& shape) {
  ModelInput input;
  if (reads_images(config)) {
    const int64_t side = config.model.image;
    input.images = Tensor::empty({shape.batch, data.channels, side, side}, DType::f32);
    Rng rng(1, "bench infer");
    fill_normal(input.images, 0, 1, rng);
    return input;
  }
  input.ids = random_ids(shape, data.vocab, "bench infer");
  const Task task = task_of(config);
  if (task == Task::translation)
    input.decoder_ids = random_ids(shape, data.target_vocab, "bench infer translation");
  if (task == Task::classification) return input;
  std::vector<int32_t> last;
  for (int64_t b = 1; b <= shape.batch; ++b)
    last.push_back(static_cast<int32_t>(b * shape.seq - 1));
  input.rows = Tensor::from(last, {shape.batch});
  return input;
}

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

InferBench bench_infer(const Config& source, const InferBenchOptions& options) {
  Config config = source;
  const bool images = reads_images(config);
  const std::vector<InferShape> shapes = shapes_of(config, options);
  const DataShape data = random_data(config, 1, 1).shape;
  int64_t longest = 0;
  for (const InferShape& s : shapes) longest = std::max(longest, s.seq);
  InferBench bench;
  bench.model = config.run.name;
  bench.dtype = config.model.dtype;
  bench.note = images ? "random weights, noise as images" : "random weights, random tokens";
  if (longest > config.model.context)
    bench.note +=
        fmt::format("; positions for {} tokens, the config has {}", longest, config.model.context);
  config.model.context = std::max(config.model.context, longest);
  std::vector<Arm> arms = build_arms(config, data, bench);
  bench.calls = norm_calls(shapes, config);
  GemmFloor floor(parse_dtype(config.model.dtype));
  const int64_t languages = task_of(config) == Task::translation ? 2 : 1;
  for (const InferShape& shape : shapes) {
    InferRow row;
    row.batch = shape.batch;
    row.seq = shape.seq;
    row.tokens = languages * shape.batch * shape.seq;
    const ModelInput input = random_input(config, data, shape);
    for (InferRow& r : measure(arms, input, row, options, floor, bench))
      bench.rows.push_back(std::move(r));
  }
  return bench;
}

}  // namespace cbwc
