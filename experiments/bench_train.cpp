#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "core/allocator.h"
#include "core/kernels/blas.h"
#include "experiments/bench.h"
#include "experiments/bench_batches.h"
#include "experiments/json_output.h"
#include "experiments/statistics.h"
#include "experiments/trainer.h"
#include "layers/norm.h"

namespace cbwc {
namespace {

using Clock = std::chrono::steady_clock;
double ms_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

struct Arm {
  TrainBenchRow row;
  std::unique_ptr<Trainer> trainer;
  size_t own = 0;  // bytes this arm keeps between steps
  std::vector<GemmShape> products;
  std::vector<StepResult> steps;
  std::vector<double> floors;  // of each step, timed just before it
};

size_t live() { return memory_stats(Device::cpu).live; }

void time_products(Arm& arm, GemmFloor& floor) {
  arm.row.gemms = floor.times(arm.products);
  arm.row.gemm_floor_ms = floor_ms(arm.row.gemms);
  for (const GemmShape& g : arm.products)
    arm.row.matmul_flop += 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) *
                           static_cast<double>(g.k) * static_cast<double>(g.calls);
}

// A clock at every op: what passes between two events belongs to the op of the later one.
void profile(Arm& arm) {
  std::map<std::string, double> ms;
  auto last = Clock::now();
  arm.trainer->set_observer([&](const TapeNode& node, bool backward, const std::vector<Tensor>&) {
    const auto now = Clock::now();
    ms[std::string(node.op->name()) + (backward ? " backward" : "")] += ms_between(last, now);
    last = Clock::now();
  });
  last = Clock::now();
  const StepResult r = arm.trainer->step();
  arm.trainer->set_observer(nullptr);
  ms["gradient norm"] = r.norm_ms;
  ms["optimiser"] = r.update_ms;
  for (const auto& [name, time] : ms) arm.row.ops.push_back({name, time});
  std::sort(arm.row.ops.begin(), arm.row.ops.end(),
            [](const OpTime& a, const OpTime& b) { return a.ms > b.ms; });
}

std::vector<Arm> build_arms(const Config& config, const TrainBenchOptions& options,
                            const TrainingData& data) {
  std::vector<Arm> arms;
  for (const std::string& name : options.arms) {
    Config c = config;
    c.model.norm = norm_name(parse_norm(name));
    const size_t before = live();
    Arm arm;
    arm.row.arm = name;
    arm.trainer = std::make_unique<Trainer>(c, 1, data);
    arm.own = live() - before;
    arms.push_back(std::move(arm));
  }
  return arms;
}

void one_step(std::vector<Arm>& arms, Arm& arm, bool keep) {
  size_t others = 0;
  for (const Arm& other : arms)
    if (&other != &arm) others += other.own;
  reset_peak(Device::cpu);
  StepResult r = arm.trainer->step();
  const double peak = static_cast<double>(memory_stats(Device::cpu).peak - others) / 1e6;
  arm.row.peak_mb = std::max(arm.row.peak_mb, peak);
  if (keep) arm.steps.push_back(r);
}

void timed_step(std::vector<Arm>& arms, Arm& arm, GemmFloor& floor) {
  arm.floors.push_back(floor.round_ms(arm.products));
  one_step(arms, arm, true);
}

void summarize(Arm& arm, const TrainBench& bench) {
  const auto values = [&](double StepResult::*field) {
    std::vector<double> out;
    for (const StepResult& s : arm.steps) out.push_back(s.*field);
    return out;
  };
  const std::vector<double> ms = values(&StepResult::step_ms);
  arm.row.median_ms = median(ms);
  arm.row.p10_ms = quantile(ms, 0.1);
  arm.row.p90_ms = quantile(ms, 0.9);
  arm.row.forward_ms = median(values(&StepResult::forward_ms));
  arm.row.backward_ms = median(values(&StepResult::backward_ms));
  arm.row.norm_ms = median(values(&StepResult::norm_ms));
  arm.row.update_ms = median(values(&StepResult::update_ms));
  arm.row.loss = arm.steps.back().loss;
  const auto per_second = [&](int64_t count) {
    return 1000.0 * static_cast<double>(count) / arm.row.median_ms;
  };
  arm.row.samples_per_s = per_second(bench.batch);
  arm.row.tokens_per_s = per_second(bench.tokens);
  arm.row.targets_per_s = per_second(arm.steps.back().tokens);
  arm.row.over_gemm_floor = arm.row.median_ms / arm.row.gemm_floor_ms;
  std::vector<double> paired;
  for (size_t i = 0; i < ms.size(); ++i) paired.push_back(ms[i] / arm.floors[i]);
  arm.row.paired_over_gemm_floor = median(paired);
}

// The config as the benchmark trains it; fills in what a batch is.
Config bench_config(Config config, const TrainBenchOptions& options, TrainBench& bench) {
  const Config::Model& m = config.model;
  bench.batch = options.batch;
  bench.dtype = m.dtype;
  if (reads_images(config)) {
    bench.patches = (m.image / m.patch) * (m.image / m.patch);
  } else {
    bench.seq = options.seq > 0 ? options.seq : std::min<int64_t>(256, m.context);
    CBWC_CHECK(bench.seq <= m.context, "bench train: --seq ", bench.seq,
               " is more than model.context ", m.context);
    bench.tokens = bench.batch * bench.seq * (task_of(config) == Task::translation ? 2 : 1);
  }
  config.data.batch = options.batch;
  config.optim.accumulate = 1;
  config.optim.schedule = "constant";
  config.optim.warmup = 0;
  if (options.dropout >= 0) config.model.dropout = config.model.attention_dropout = options.dropout;
  if (options.dropout == 0) config.model.drop_path = 0;
  return config;
}

TrainingData prepared_data(const Config& config, const TrainBenchOptions& options, int64_t seq) {
  require_targets(config);
  constexpr int64_t kBatches = 4;  // different ones; what they hold has no bearing on the time
  TrainingData data = random_data(config, (kBatches + 1) * options.batch, 1, seq);
  data.train = std::make_shared<PreparedBatches>(
      *data.train, StreamOptions{.batch_size = options.batch, .seed = 1, .prefetch = 0}, kBatches);
  return data;
}

}  // namespace

TrainBench bench_train(const Config& source, const TrainBenchOptions& options) {
  TrainBench bench;
  const Config config = bench_config(source, options, bench);
  const TrainingData data = prepared_data(config, options, bench.seq);
  bench.note = data.note;
  std::vector<Arm> arms = build_arms(config, options, data);
  for (int i = 0; i < options.warmup; ++i)
    for (Arm& arm : arms) one_step(arms, arm, false);
  for (Arm& arm : arms) {
    start_gemm_log();
    arm.trainer->step();
    arm.products = stop_gemm_log();
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  bench.rss_peak_mb = static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
  GemmFloor floor(parse_dtype(config.model.dtype));
  for (int i = 0; i < options.steps; ++i)
    for (Arm& arm : arms) timed_step(arms, arm, floor);
  for (Arm& arm : arms) profile(arm);
  bench.cube_gflop_per_s =
      2.0 * 2048.0 * 2048 * 2048 / floor.best_ms({2048, 2048, 2048, false, false, 1}) / 1e6;
  for (Arm& arm : arms) {
    time_products(arm, floor);
    summarize(arm, bench);
    bench.rows.push_back(arm.row);
  }
  return bench;
}

}  // namespace cbwc
