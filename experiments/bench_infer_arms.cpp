#include "experiments/bench_infer_arms.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>

#include "core/allocator.h"
#include "core/rng.h"
#include "experiments/fold_parts.h"
#include "layers/folding.h"
#include "layers/norm.h"

namespace cbwc {
namespace {

using Clock = std::chrono::steady_clock;

// Gains and biases of these norms.
int64_t numbers_of(const Model& model, const AffineFold& norm) {
  int64_t numbers = 0;
  for (const std::string& name : {norm.gamma, norm.beta})
    if (!name.empty()) numbers += model.parameter(name)->value().numel();
  return numbers;
}

// Writes down how many norms became RMSNorms, of how many, and what of them `--affine` moves.
void count_norms(const Graph& graph, const Model& model, const Detection& found, FoldPlan plan,
                 InferBench& bench) {
  if (plan.affine.empty()) plan_affine(graph, model, plan);
  bench.norms = std::ssize(plan.norms);
  bench.all_norms = std::ssize(found.norms);
  for (const DetectedNorm& norm : found.norms)
    bench.auxiliary +=
        norm.verdict == Verdict::foldable_with_auxiliary &&
        std::find(plan.norms.begin(), plan.norms.end(), norm.name) == plan.norms.end();
  for (const AffineFold& norm : plan.affine)
    if (norm.skipped.empty()) bench.movable_norm_numbers += numbers_of(model, norm);
}

void fold(Model& model, const InferBenchOptions& options, InferBench& bench) {
  const auto start = Clock::now();
  const Graph graph = record_graph(model, false);
  const Detection found = detect(graph, options.carry_mean);
  FoldPlan plan = plan_fold(found, options.fold);
  CBWC_CHECK(!plan.empty(), "bench infer: no LayerNorm of this model folds (cbwc detect says why)");
  if (options.affine) plan_affine(graph, model, plan);
  apply_fold(model, plan);
  bench.fold_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  count_norms(graph, model, found, plan, bench);
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

std::unique_ptr<Model> arm_model(const ArmSource& source, Norm norm) {
  Config config = source.config;
  config.model.norm = norm_name(norm);
  if (source.trained == nullptr) {
    std::unique_ptr<Model> model = build_model(config, source.shape, 1);
    randomize_norms(*model, 2);
    return model;
  }
  const DType dtype = parse_dtype(config.model.dtype);
  std::unique_ptr<Model> model = empty_model(config, source.shape, dtype);
  for (const ParameterPtr& p : model->parameters())
    p->mutate() = source.trained->model->parameter(p->name())->value().to(dtype).clone();
  return model;
}

std::unique_ptr<Model> folded_arm(const ArmSource& source, const InferBenchOptions& options,
                                  InferBench& bench) {
  std::unique_ptr<Model> model = arm_model(source, Norm::layernorm);
  if (source.folded == nullptr) {
    fold(*model, options, bench);
    return model;
  }
  FoldPlan all;
  for (const FoldPlan& plan : source.folded->folds)
    all.norms.insert(all.norms.end(), plan.norms.begin(), plan.norms.end());
  const Graph graph = record_graph(*model, false);
  count_norms(graph, *model, detect(graph), all, bench);
  bench.fold_ms = std::numeric_limits<double>::quiet_NaN();
  return copy_of(*source.folded->model, source.folded->config, source.shape, source.folded->folds,
                 parse_dtype(source.config.model.dtype));
}

int64_t norm_numbers(const Model& layernorm, const Model& none) {
  int64_t numbers = 0;
  for (const ParameterPtr& p : layernorm.parameters()) numbers += p->value().numel();
  for (const ParameterPtr& p : none.parameters()) numbers -= p->value().numel();
  return numbers;
}

Tensor random_ids(const InferShape& shape, int64_t vocab, const char* purpose) {
  Rng rng(1, purpose);
  std::vector<int32_t> ids(static_cast<size_t>(shape.batch * shape.seq));
  for (int32_t& id : ids) id = static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocab)));
  return Tensor::from(ids, {shape.batch, shape.seq});
}

// A few positions more than one model's rounding would show at.
ModelInput small_input(const ArmSource& source) {
  constexpr int64_t kImages = 8, kTexts = 2, kTokens = 128;
  const bool images = reads_images(source.config);
  ModelInput input = random_input(
      source,
      {images ? kImages : kTexts, images ? 0 : std::min(kTokens, source.config.model.context)});
  input.rows = {};  // every position
  return input;
}

Verification compare(Model& before, Model& after, const ArmSource& source) {
  const TapeScope no_tape(nullptr);
  return compare_logits(before, after, small_input(source), "random input",
                        std::numeric_limits<double>::infinity());
}

}  // namespace

size_t bytes_of(const Model& model) {
  size_t bytes = 0;
  for (const ParameterPtr& p : model.parameters()) bytes += p->value().bytes();
  return bytes;
}

std::vector<Arm> build_arms(const ArmSource& source, const InferBenchOptions& options,
                            InferBench& bench) {
  std::vector<Arm> arms;
  arms.push_back({"layernorm", arm_model(source, Norm::layernorm)});
  const auto add = [&](const std::string& name, std::unique_ptr<Model> model) {
    share_equal(*model, *arms[0].model);
    arms.push_back({name, std::move(model)});
  };
  add("folded", folded_arm(source, options, bench));
  if (bench.norms < bench.all_norms) add(kAllRmsNorm, arm_model(source, Norm::rmsnorm));
  add("none", arm_model(source, Norm::none));
  release_cached(Device::cpu);
  bench.norm_numbers = norm_numbers(*arms[0].model, *arms.back().model);
  return arms;
}

ModelInput random_input(const ArmSource& source, const InferShape& shape) {
  const Config& config = source.config;
  const DataShape& data = source.shape;
  ModelInput input;
  if (reads_images(config)) {
    const int64_t side = config.model.image;
    input.images = Tensor::empty({shape.batch, data.channels, side, side}, DType::f32);
    Rng rng(1, "bench infer");
    fill_normal(input.images, 0, 1, rng);
    return input;
  }
  const int64_t vocab = config.model.vocab > 0 ? config.model.vocab : data.vocab;
  input.ids = random_ids(shape, vocab, "bench infer");
  const Task task = task_of(config);
  if (task == Task::translation)
    input.decoder_ids = random_ids(shape, data.target_vocab, "bench infer translation");
  if (task == Task::classification || task == Task::hidden_states) return input;
  std::vector<int32_t> last;
  for (int64_t b = 1; b <= shape.batch; ++b)
    last.push_back(static_cast<int32_t>(b * shape.seq - 1));
  input.rows = Tensor::from(last, {shape.batch});
  return input;
}

void compare_fold(const std::vector<Arm>& arms, const ArmSource& source, InferBench& bench) {
  const Verification v = compare(*arms[0].model, *arms[1].model, source);
  bench.compared_positions = v.positions;
  bench.max_abs_difference = v.max_abs;
  bench.max_rel_difference = v.max_rel;
  bench.argmax_agreement = v.argmax_agreement;
}

void compare_fold_in_float64(ArmSource source, const InferBenchOptions& options,
                             InferBench& bench) {
  source.config.model.dtype = dtype_name(DType::f64);
  InferBench counts;
  const auto before = arm_model(source, Norm::layernorm),
             after = folded_arm(source, options, counts);
  bench.float64_rel_difference = compare(*before, *after, source).max_rel;
}

}  // namespace cbwc
