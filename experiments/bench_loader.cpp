// bench loader: does the data keep up with the training step?
#include <fmt/format.h>

#include <algorithm>

#include "data/samples.h"
#include "experiments/bench.h"
#include "experiments/bench_batches.h"
#include "experiments/bench_row.h"
#include "experiments/json_output.h"
#include "experiments/trainer.h"

namespace cbwc {
namespace {

double step_samples_per_s(const Config& config, const LoaderBenchOptions& options,
                          TrainingData data) {
  constexpr int64_t kBatches = 2;
  const auto seed = static_cast<uint64_t>(config.run.seeds.at(0));
  data.train = std::make_shared<PreparedBatches>(
      *data.train, StreamOptions{.batch_size = config.data.batch, .seed = seed, .prefetch = 0},
      kBatches);
  Trainer trainer(config, config.run.seeds.at(0), data);
  trainer.step();  // warms up
  std::vector<double> ms;
  for (int i = 0; i < options.steps; ++i) ms.push_back(trainer.step().step_ms);
  return 1000.0 * static_cast<double>(config.data.batch) / median(ms);
}

}  // namespace

LoaderBench bench_loader(const Config& source, const LoaderBenchOptions& options) {
  Config config = source;
  config.optim.accumulate = 1;  // a step's samples are one batch
  const TrainingData data = open_data(config, "");
  LoaderBench bench;
  bench.batch = config.data.batch;
  bench.note = data.note;
  bench.step_samples_per_s = step_samples_per_s(config, options, data);
  for (const int64_t workers : options.workers) {
    const int64_t ahead = std::max(workers, config.data.prefetch);
    const auto stream = data.train->stream({.batch_size = config.data.batch,
                                            .seed = static_cast<uint64_t>(config.run.seeds.at(0)),
                                            .prefetch = ahead,
                                            .workers = workers});
    // What was made while the epoch's order was drawn is not for the clock.
    for (int64_t i = 0; i < ahead; ++i) stream->next();
    const StreamSpeed speed = measure_stream(*stream, options.batches);
    bench.rows.push_back({workers, speed.samples, speed.samples_per_second,
                          speed.samples_per_second >= bench.step_samples_per_s});
  }
  return bench;
}

nlohmann::json loader_bench_json(const LoaderBench& bench) {
  nlohmann::json rows = nlohmann::json::array();
  for (const LoaderRow& r : bench.rows)
    rows.push_back(bench_row({{"name", "loader"},
                              {"batch", bench.batch},
                              {"workers", r.workers},
                              {"samples", r.samples},
                              {"samples_per_s", json_number(r.samples_per_s)},
                              {"step_samples_per_s", json_number(bench.step_samples_per_s)},
                              {"keeps_up", r.keeps_up}}));
  return {{"rows", rows}, {"input", bench.note}};
}

std::string loader_bench_table(const LoaderBench& bench) {
  std::string out =
      fmt::format("batches of {} from {}\na training step alone: {:.1f} samples/s\n{:>8} {:>14}\n",
                  bench.batch, bench.note, bench.step_samples_per_s, "workers", "samples/s alone");
  for (const LoaderRow& r : bench.rows)
    out += fmt::format("{:>8} {:>15.1f}  {:.1f} x the step: {}\n", r.workers, r.samples_per_s,
                       r.samples_per_s / bench.step_samples_per_s,
                       r.keeps_up ? "keeps up" : "TOO SLOW");
  return out;
}

}  // namespace cbwc
