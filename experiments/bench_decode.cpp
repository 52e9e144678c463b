#include "experiments/bench_decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/allocator.h"
#include "experiments/bench_infer.h"
#include "experiments/bench_row.h"
#include "experiments/bench_timed.h"
#include "experiments/json_output.h"
#include "layers/tied_linear.h"

namespace cbwc {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// What decoding cannot beat once the weights leave the caches.
class ReadPass {
 public:
  ReadPass() : buffer_(Tensor::full({kNumbers}, 1, DType::f32)) {}

  void run() {
    const auto start = Clock::now();
    read_pass(buffer_.data<float>(), kNumbers, sums_);
    ms_.push_back(ms_since(start));
    for (const float sum : sums_)
      CBWC_CHECK(sum == static_cast<float>(kReadChunk), "bench infer: a read pass read wrongly");
  }
  double bytes_per_ms() const { return static_cast<double>(buffer_.bytes()) / median(ms_); }

 private:
  static constexpr int64_t kNumbers = 1 << 26;
  Tensor buffer_;
  std::vector<float> sums_;
  std::vector<double> ms_;
};

size_t tied_bytes(const Module& module) {
  size_t bytes = 0;
  if (const auto* head = dynamic_cast<const TiedLinear*>(&module))
    if (head->state() != TiedLinear::State::untied) bytes += head->weight()->value().bytes();
  for (const Module* child : module.children()) bytes += tied_bytes(*child);
  return bytes;
}

size_t all_bytes(const Model& model) {
  size_t bytes = 0;
  for (const ParameterPtr& p : model.parameters()) bytes += p->value().bytes();
  return bytes;
}

void timed_token(const DecodeArm& arm, const Tensor& ids, KvCache& cache, DecodeRow& row) {
  reset_peak(Device::cpu);
  const size_t before = memory_stats(Device::cpu).live;
  const auto start = Clock::now();
  arm.model->next_logits(ids, cache);
  row.ms.push_back(ms_since(start));
  const size_t own = memory_stats(Device::cpu).peak - before;
  row.peak_mb =
      std::max(row.peak_mb, static_cast<double>(own + all_bytes(*arm.model) + cache.bytes()) / 1e6);
}

void summarize(std::vector<DecodeRow>& rows, double bytes_per_ms) {
  for (DecodeRow& row : rows) {
    row.median_ms = median(row.ms);
    row.p10_ms = quantile(row.ms, 0.1);
    row.p90_ms = quantile(row.ms, 0.9);
    row.tokens_per_s = 1000.0 * static_cast<double>(row.batch) / row.median_ms;
    row.speedup = paired_ratio(rows.front().ms, row.ms);
    row.ceiling = paired_ratio(rows.front().ms, rows.back().ms);
    row.share_of_ceiling = share_of_ceiling(row.speedup, row.ceiling);
    row.read_gb_per_s = bytes_per_ms / 1e6;
    row.weight_floor_ms = row.weight_mb * 1e6 / bytes_per_ms;
    row.over_weight_floor = row.median_ms / row.weight_floor_ms;
    row.over_read_floor = row.median_ms / ((row.weight_mb + row.cache_mb) * 1e6 / bytes_per_ms);
  }
}

std::string verdict(const DecodeRow& r) {
  if (r.arm == "layernorm") return "";
  const char* found = r.speedup.low > 1 ? "faster" : r.speedup.high < 1 ? "SLOWER" : "within noise";
  const std::string text = fmt::format("{:<24} {:<12}", format_ratio(r.speedup), found);
  if (r.arm != "folded") return text;
  return text + (std::isnan(r.share_of_ceiling)
                     ? "  ceiling within noise"
                     : fmt::format("  {:.0f} %", 100 * r.share_of_ceiling));
}

}  // namespace

size_t weight_bytes_read(const Model& model) {
  size_t bytes = tied_bytes(model);
  for (const ParameterPtr& p : model.parameters())
    if (p->role() != Role::embedding && p->role() != Role::position) bytes += p->value().bytes();
  return bytes;
}

std::vector<DecodeRow> bench_decode(const std::vector<DecodeArm>& arms, const Tensor& ids,
                                    const DecodeOptions& options) {
  const int64_t batch = ids.size(0), seq = ids.size(1);
  KvCache cache = arms.at(0).model->make_cache(batch, seq + options.tokens);
  arms[0].model->next_logits(ids, cache);
  const Tensor next = ids.slice(1, 0, 1).contiguous();
  std::vector<DecodeRow> rows;
  const double share =
      static_cast<double>(seq + options.tokens / 2) / static_cast<double>(seq + options.tokens);
  for (const DecodeArm& arm : arms) {
    arm.model->next_logits(next, cache);  // warm
    cache.truncate(seq);
    DecodeRow row;
    row.arm = arm.name;
    row.batch = batch;
    row.seq = seq;
    row.weight_mb = static_cast<double>(weight_bytes_read(*arm.model)) / 1e6;
    row.cache_mb = share * static_cast<double>(cache.bytes()) / 1e6;
    rows.push_back(row);
  }
  ReadPass reading;
  const auto start = Clock::now();
  for (int64_t r = 0; r < options.tokens || ms_since(start) < 1e3 * options.seconds; ++r) {
    const int64_t place = seq + r % options.tokens;
    reading.run();
    for (const size_t at : arm_order(static_cast<int>(r), arms.size())) {
      cache.truncate(place);
      timed_token(arms[at], next, cache, rows[at]);
    }
  }
  summarize(rows, reading.bytes_per_ms());
  return rows;
}

nlohmann::json decode_rows_json(const std::vector<DecodeRow>& rows, const std::string& model,
                                const std::string& dtype) {
  const auto interval = [](const PairedRatio& r) {
    return nlohmann::json::array({json_number(r.low), json_number(r.high)});
  };
  nlohmann::json out = nlohmann::json::array();
  for (const DecodeRow& r : rows)
    out.push_back(bench_row({{"name", "decode"},
                             {"model", model},
                             {"dtype", dtype},
                             {"arm", r.arm},
                             {"batch", r.batch},
                             {"seq", r.seq},
                             {"tokens", r.ms.size()},
                             {"median_ms", json_number(r.median_ms)},
                             {"p10_ms", json_number(r.p10_ms)},
                             {"p90_ms", json_number(r.p90_ms)},
                             {"tokens_per_s", json_number(r.tokens_per_s)},
                             {"speedup_over_layernorm", json_number(r.speedup.ratio)},
                             {"speedup_ci95", interval(r.speedup)},
                             {"ceiling_speedup", json_number(r.ceiling.ratio)},
                             {"ceiling_ci95", interval(r.ceiling)},
                             {"share_of_ceiling", json_number(r.share_of_ceiling)},
                             {"weight_mb", json_number(r.weight_mb)},
                             {"cache_mb", json_number(r.cache_mb)},
                             {"read_gb_per_s", json_number(r.read_gb_per_s)},
                             {"weight_floor_ms", json_number(r.weight_floor_ms)},
                             {"over_weight_floor", json_number(r.over_weight_floor)},
                             {"over_read_floor", json_number(r.over_read_floor)},
                             {"peak_mb", json_number(r.peak_mb)},
                             {"ms", r.ms}}));
  return out;
}

std::string decode_table(const std::vector<DecodeRow>& rows) {
  if (rows.empty()) return "";
  size_t width = 0;
  for (const DecodeRow& r : rows) width = std::max(width, r.arm.size());
  std::string out = fmt::format(
      "\none token with a KV cache, after a prompt of SEQ tokens (memory read at {:.1f} GB/s "
      "meanwhile)\n{:>9} {:<{}} {:>6} {:>9} {:>8} {:>8} {:>9} {:>8} {:>8} {:>6} {:>6}  {}\n",
      rows[0].read_gb_per_s, "batchxseq", "arm", width, "tokens", "median ms", "p10", "p90",
      "tokens/s", "peak MB", "floor ms", "over", "w. kv", "LayerNorm's time / arm's");
  for (const DecodeRow& r : rows)
    out += fmt::format(
        "{:>9} {:<{}} {:>6} {:>9.3f} {:>8.3f} {:>8.3f} {:>9.0f} {:>8.0f} {:>8.3f} {:>6.2f} "
        "{:>6.2f} "
        " {}\n",
        fmt::format("{}x{}", r.batch, r.seq), r.arm, width, r.ms.size(), r.median_ms, r.p10_ms,
        r.p90_ms, r.tokens_per_s, r.peak_mb, r.weight_floor_ms, r.over_weight_floor,
        r.over_read_floor, verdict(r));
  return out +
         "floor: the weights that a token reads, at the rate measured between the tokens; over: "
         "the "
         "median over it; w. kv: over the floor with the cached keys and values (below 1: the "
         "caches hold them)\n";
}

}  // namespace cbwc
