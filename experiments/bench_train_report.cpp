// bench train as JSON and as text.
#include <fmt/format.h>

#include "experiments/bench.h"
#include "experiments/bench_row.h"
#include "experiments/json_output.h"

namespace cbwc {
namespace {

nlohmann::json gemms_json(const std::vector<GemmTime>& gemms) {
  nlohmann::json out = nlohmann::json::array();
  for (const GemmTime& g : gemms)
    out.push_back({{"m", g.m},
                   {"n", g.n},
                   {"k", g.k},
                   {"transposes", g.transposes},
                   {"calls", g.calls},
                   {"best_ms", json_number(g.best_ms)},
                   {"gflop_per_s", json_number(g.gflop_per_s)}});
  return out;
}

}  // namespace

nlohmann::json train_bench_json(const TrainBench& bench) {
  nlohmann::json rows = nlohmann::json::array();
  for (const TrainBenchRow& r : bench.rows) {
    nlohmann::json ops = nlohmann::json::array();
    for (const OpTime& op : r.ops) ops.push_back({{"name", op.name}, {"ms", json_number(op.ms)}});
    rows.push_back(
        bench_row({{"name", "train_step"},
                   {"arm", r.arm},
                   {"batch", bench.batch},
                   {"seq", bench.seq},
                   {"patches", bench.patches},
                   {"dtype", bench.dtype},
                   {"median_ms", json_number(r.median_ms)},
                   {"p10_ms", json_number(r.p10_ms)},
                   {"p90_ms", json_number(r.p90_ms)},
                   {"step_ms", json_number(r.median_ms)},
                   {"forward_ms", json_number(r.forward_ms)},
                   {"backward_ms", json_number(r.backward_ms)},
                   {"gradient_norm_ms", json_number(r.norm_ms)},
                   {"update_ms", json_number(r.update_ms)},
                   {"tokens_per_s", bench.tokens > 0 ? json_number(r.tokens_per_s) : nullptr},
                   {"samples_per_s", json_number(r.samples_per_s)},
                   {"targets_per_s", json_number(r.targets_per_s)},
                   {"peak_mb", json_number(r.peak_mb)},
                   {"loss", json_number(r.loss)},
                   {"matmul_flop", json_number(r.matmul_flop)},
                   {"gflop_per_s", json_number(r.matmul_flop / r.median_ms / 1e6)},
                   {"gemm_floor_ms", json_number(r.gemm_floor_ms)},
                   {"over_gemm_floor", json_number(r.over_gemm_floor)},
                   {"paired_over_gemm_floor", json_number(r.paired_over_gemm_floor)},
                   {"gemms", gemms_json(r.gemms)},
                   {"ops", ops}}));
  }
  return {{"rows", rows},
          {"gemms", gemms_json(bench.rows.at(0).gemms)},
          {"cube_2048_gflop_per_s", json_number(bench.cube_gflop_per_s)},
          {"rss_peak_mb", json_number(bench.rss_peak_mb)},
          {"input", bench.note}};
}

std::string train_bench_table(const TrainBench& bench) {
  const std::string sample = bench.patches > 0 ? fmt::format("images of {} patches", bench.patches)
                                               : fmt::format("{} tokens", bench.seq);
  std::string out = fmt::format("one training step of {} x {}, {}; {}\n", bench.batch, sample,
                                bench.dtype, bench.note);
  out += fmt::format(
      "{:<16} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10} {:>8} {:>8} {:>8} {:>9}\n", "arm",
      "step ms", "p10", "p90", "forward", "backward", "norm", "optimiser", "GEMM floor", "over",
      "paired", "peak MB", "samples/s");
  for (const TrainBenchRow& r : bench.rows)
    out += fmt::format(
        "{:<16} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>10.1f} "
        "{:>10.1f} {:>8.3f} {:>8.3f} {:>8.0f} {:>9.2f}\n",
        r.arm, r.median_ms, r.p10_ms, r.p90_ms, r.forward_ms, r.backward_ms, r.norm_ms, r.update_ms,
        r.gemm_floor_ms, r.over_gemm_floor, r.paired_over_gemm_floor, r.peak_mb, r.samples_per_s);
  out += fmt::format("\nproducts of a step ({}), best of warm calls; a 2048-cube: {:.0f} GFLOP/s\n",
                     bench.rows.at(0).arm, bench.cube_gflop_per_s);
  out += fmt::format("{:>6} {:>6} {:>6} {:>4} {:>7} {:>9} {:>9} {:>9}\n", "m", "n", "k", "op",
                     "calls", "best ms", "all ms", "GFLOP/s");
  for (const GemmTime& g : bench.rows[0].gemms)
    out += fmt::format("{:>6} {:>6} {:>6} {:>4} {:>7} {:>9.3f} {:>9.2f} {:>9.0f}\n", g.m, g.n, g.k,
                       g.transposes, g.calls, g.best_ms, g.best_ms * static_cast<double>(g.calls),
                       g.gflop_per_s);
  for (const TrainBenchRow& r : bench.rows) {
    out += fmt::format("\nwhere one step of {} goes (ms):", r.arm);
    for (const OpTime& op : r.ops)
      if (op.ms >= 0.0005 * r.median_ms) out += fmt::format(" {} {:.1f},", op.name, op.ms);
    out.back() = '\n';
  }
  return out;
}

}  // namespace cbwc
