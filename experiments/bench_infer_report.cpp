// bench infer as JSON and as text.
#include <fmt/format.h>

#include <cmath>

#include "experiments/bench_infer.h"
#include "experiments/bench_row.h"
#include "experiments/json_output.h"

namespace cbwc {
namespace {

nlohmann::json interval_json(const PairedRatio& r) {
  return nlohmann::json::array({json_number(r.low), json_number(r.high)});
}

nlohmann::json call_json(const InferBench& bench, const NormCallRow& c) {
  return bench_row({{"name", "norm_call"},
                    {"model", bench.model},
                    {"arm", c.arm},
                    {"rows", c.rows},
                    {"cols", c.cols},
                    {"dtype", bench.dtype},
                    {"median_ms", json_number(c.median_ms)},
                    {"p10_ms", json_number(c.p10_ms)},
                    {"p90_ms", json_number(c.p90_ms)},
                    {"gb_per_s", json_number(c.gb_per_s)},
                    {"speedup_over_layernorm", json_number(c.speedup.ratio)},
                    {"speedup_ci95", interval_json(c.speedup)}});
}

nlohmann::json row_json(const InferBench& bench, const InferRow& r) {
  nlohmann::json out = {{"name", "infer"},
                        {"model", bench.model},
                        {"arm", r.arm},
                        {"batch", r.batch},
                        {"seq", r.seq},
                        {"dtype", bench.dtype},
                        {"repeats", r.ms.size()},
                        {"median_ms", json_number(r.median_ms)},
                        {"p10_ms", json_number(r.p10_ms)},
                        {"p90_ms", json_number(r.p90_ms)},
                        {"tokens_per_s", r.tokens > 0 ? json_number(r.tokens_per_s) : nullptr},
                        {"samples_per_s", json_number(r.samples_per_s)},
                        {"speedup_over_layernorm", json_number(r.speedup.ratio)},
                        {"speedup_ci95", interval_json(r.speedup)},
                        {"ceiling_speedup", json_number(r.ceiling.ratio)},
                        {"ceiling_ci95", interval_json(r.ceiling)},
                        {"share_of_ceiling", nullptr},
                        {"gemm_floor_ms", json_number(r.gemm_floor_ms)},
                        {"over_gemm_floor", json_number(r.over_gemm_floor)},
                        {"peak_mb", json_number(r.peak_mb)},
                        {"ms", r.ms}};
  if (r.pays_after > 0) {
    out["pays_after_passes"] = r.pays_after;
    out["pays_after_tokens"] = r.pays_after * static_cast<double>(r.tokens);
  }
  if (!std::isnan(r.share_of_ceiling)) out["share_of_ceiling"] = r.share_of_ceiling;
  return bench_row(std::move(out));
}

nlohmann::json plan_json(const InferPlan& plan) {
  nlohmann::json left_out = nlohmann::json::array();
  for (const InferPlan::Row& row : plan.rows)
    if (!row.skipped.empty())
      left_out.push_back(
          {{"batch", row.shape.batch}, {"seq", row.shape.seq}, {"reason", row.skipped}});
  return {{"needed_gb", json_number(plan.needed_gb)},
          {"left_out", plan.skipped.empty() ? nlohmann::json() : nlohmann::json(plan.skipped)},
          {"shapes_left_out", left_out}};
}

nlohmann::json model_json(const InferBench& bench) {
  return {{"model", bench.model},
          {"family", bench.family},
          {"norms", bench.norms},
          {"all_norms", bench.all_norms},
          {"auxiliary", bench.auxiliary},
          {"norm_numbers", bench.norm_numbers},
          {"movable_norm_numbers", bench.movable_norm_numbers},
          {"fold_ms", std::isnan(bench.fold_ms) ? nlohmann::json() : json_number(bench.fold_ms)},
          {"note", bench.note},
          {"fold_difference", json_number(bench.fold_difference)},
          {"compared_positions", bench.compared_positions},
          {"max_abs_difference", json_number(bench.max_abs_difference)},
          {"max_rel_difference", json_number(bench.max_rel_difference)},
          {"argmax_agreement", json_number(bench.argmax_agreement)},
          {"float64_rel_difference", std::isnan(bench.float64_rel_difference)
                                         ? nlohmann::json()
                                         : json_number(bench.float64_rel_difference)},
          {"plan", plan_json(bench.plan)}};
}

std::string fold_line(const InferBench& b) {
  const std::string float64 =
      std::isnan(b.float64_rel_difference)
          ? ""
          : fmt::format("in float64 {:.1e} relative\n", b.float64_rel_difference);
  return fmt::format(
      "folded against LayerNorm at {} positions of random input: largest difference {:.2e} ({:.1e} "
      "relative), likeliest answer equal at {:.2f} %\n{}{} of the {} gains and biases can move "
      "into "
      "the weights that read them (--affine)\n",
      b.compared_positions, b.max_abs_difference, b.max_rel_difference, 100 * b.argmax_agreement,
      float64, b.movable_norm_numbers, b.norm_numbers);
}

// After how much work the time of the fold has come back, where it gains anything.
std::string pays_text(const InferBench& bench) {
  if (std::isnan(bench.fold_ms)) return "";
  std::string out;
  for (const InferRow& r : bench.rows) {
    if (!(r.pays_after > 0)) continue;
    out += out.empty() ? "the fold has paid for itself after" : ",";
    out += r.seq == 0 ? fmt::format(" {:.0f} images (batch {})",
                                    std::ceil(r.pays_after) * static_cast<double>(r.batch), r.batch)
                      : fmt::format(" {:.0f} tokens ({}x{})",
                                    std::ceil(r.pays_after) * static_cast<double>(r.tokens),
                                    r.batch, r.seq);
  }
  return out.empty() ? "the folded arm is nowhere faster by more than noise: the fold never pays\n"
                     : out + "\n";
}

std::string calls_table(const InferBench& bench) {
  std::string out = fmt::format(
      "one norm call ({} of {} norms were folded{})\n{:>12} {:<10} {:>10} {:>9} {:>9} {:>7}  {}\n",
      bench.norms, bench.all_norms,
      std::isnan(bench.fold_ms) ? "" : fmt::format(" in {:.1f} ms", bench.fold_ms), "rows x cols",
      "norm", "median ms", "p10", "p90", "GB/s", "LayerNorm's time over it [95 %]");
  for (const NormCallRow& c : bench.calls)
    out += fmt::format("{:>12} {:<10} {:>10.4f} {:>9.4f} {:>9.4f} {:>7.1f}  {}\n",
                       fmt::format("{}x{}", c.rows, c.cols),
                       c.arm == "layernorm" ? "LayerNorm" : "RMSNorm", c.median_ms, c.p10_ms,
                       c.p90_ms, c.gb_per_s, c.arm == "layernorm" ? "" : format_ratio(c.speedup));
  return out;
}

// A gain or a loss only where the interval leaves 1 out.
std::string verdict(const InferRow& r) {
  if (r.arm == "layernorm") return "";
  if (r.speedup.low > 1) return "faster";
  return r.speedup.high < 1 ? "SLOWER" : "within noise";
}

}  // namespace

nlohmann::json infer_plans_json(const std::vector<InferPlan>& plans) {
  nlohmann::json models = nlohmann::json::array();
  for (const InferPlan& plan : plans)
    models.push_back({{"model", plan.model}, {"plan", plan_json(plan)}});
  return {{"models", models}};
}

nlohmann::json infer_bench_json(const std::vector<InferBench>& models) {
  nlohmann::json rows = nlohmann::json::array(), calls = rows, notes = rows, decode = rows;
  for (const InferBench& bench : models) {
    for (const InferRow& r : bench.rows) rows.push_back(row_json(bench, r));
    for (const NormCallRow& c : bench.calls) calls.push_back(call_json(bench, c));
    for (nlohmann::json& r : decode_rows_json(bench.decode, bench.model, bench.dtype))
      decode.push_back(std::move(r));
    notes.push_back(model_json(bench));
  }
  return {{"rows", rows}, {"norm_calls", calls}, {"models", notes}, {"decode", decode}};
}

std::string infer_bench_table(const InferBench& bench) {
  if (!bench.plan.skipped.empty()) return infer_plan_text(bench.plan);
  const bool images = bench.family == "vit" || bench.family == "swin";
  size_t width = 0;
  for (const InferRow& r : bench.rows) width = std::max(width, r.arm.size());
  std::string out =
      fmt::format("{}, {}: {}\n{}\n", bench.model, bench.dtype, bench.note, fold_line(bench));
  if (bench.rows.empty()) return out + infer_plan_text(bench.plan);
  out += fmt::format("{}\na whole pass{} (folded against LayerNorm: {:.1e} relative)\n",
                     calls_table(bench), images ? "" : ", logits of the last position",
                     bench.fold_difference);
  out +=
      fmt::format("{:>9} {:<{}} {:>4} {:>10} {:>10} {:>10} {:>9} {:>8} {:>6}  {:<24} {:<13} {}\n",
                  images ? "batch" : "batchxseq", "arm", width, "runs", "median ms", "p10", "p90",
                  images ? "images/s" : "tokens/s", "peak MB", "over", "LayerNorm's time / arm's",
                  "", "of the ceiling");
  for (const InferRow& r : bench.rows) {
    const std::string share = r.arm != "folded" ? ""
                              : std::isnan(r.share_of_ceiling)
                                  ? "ceiling within noise"
                                  : fmt::format("{:.0f} %", 100 * r.share_of_ceiling);
    out += fmt::format(
        "{:>9} {:<{}} {:>4} {:>10.2f} {:>10.2f} {:>10.2f} {:>9.0f} {:>8.0f} {:>6.2f}  {:<24} "
        "{:<13} {}\n",
        images ? fmt::format("{}", r.batch) : fmt::format("{}x{}", r.batch, r.seq), r.arm, width,
        r.ms.size(), r.median_ms, r.p10_ms, r.p90_ms, images ? r.samples_per_s : r.tokens_per_s,
        r.peak_mb, r.over_gemm_floor, r.arm == "layernorm" ? "" : format_ratio(r.speedup),
        verdict(r), share);
  }
  return out + pays_text(bench) +
         "over: the median over the sum of the pass's matrix products, each at its best "
         "(attention's own not counted)\n" +
         decode_table(bench.decode);
}

}  // namespace cbwc
