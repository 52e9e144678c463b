// The decode half of bench infer: complete rows, what a token reads, JSON and table.
#include "experiments/bench_decode.h"

#include <cmath>

#include "experiments/bench_infer.h"
#include "experiments/model_build.h"
#include "layers/decoder.h"
#include "tests/experiments/tiny_families.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/text_models.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr int kTokens = 8;

InferBenchOptions quick(int64_t decode) {
  InferBenchOptions o;
  o.shapes = {"1x8", "2x10"};
  o.seconds = 0;
  o.decode = decode;
  return o;
}

double bytes_of(const Model& model) {
  double bytes = 0;
  for (const ParameterPtr& p : model.parameters()) bytes += static_cast<double>(p->value().bytes());
  return bytes;
}

double bytes_of(const Model& model, const std::string& name) {
  return static_cast<double>(model.parameter(name)->value().bytes());
}

}  // namespace

TEST_CASE("bench infer decodes with every arm after every prompt") {
  const InferBench bench = bench_infer(tiny_config("none.h5", {}), quick(kTokens));
  REQUIRE(bench.decode.size() == 6);
  for (size_t i = 0; i < bench.decode.size(); ++i) {
    const DecodeRow& r = bench.decode[i];
    CHECK(r.arm == bench.rows[i].arm);
    CHECK(r.batch == bench.rows[i].batch);
    CHECK(r.seq == bench.rows[i].seq);
    CHECK(r.ms.size() == kTokens);
    CHECK(r.p10_ms <= r.median_ms);
    CHECK(r.median_ms <= r.p90_ms);
    CHECK(r.tokens_per_s == Approx(1000.0 * static_cast<double>(r.batch) / r.median_ms));
    CHECK(r.speedup.low <= r.speedup.ratio);
    CHECK(r.ceiling.ratio == bench.decode[i / 3 * 3 + 2].speedup.ratio);
    CHECK(std::isnan(r.share_of_ceiling) == !(r.ceiling.low > 1));
    CHECK(r.read_gb_per_s > 0.1);
    CHECK(r.weight_floor_ms == Approx(r.weight_mb / r.read_gb_per_s));
    CHECK(r.over_weight_floor == Approx(r.median_ms / r.weight_floor_ms));
    CHECK(r.over_read_floor < r.over_weight_floor);
    CHECK(r.peak_mb > r.weight_mb + r.cache_mb);
  }
  CHECK(bench.decode[0].speedup.ratio == 1);
  CHECK(bench.decode[3].cache_mb / bench.decode[0].cache_mb ==
        Approx(2.0 * (10 + kTokens / 2) / (8 + kTokens / 2)));
  CHECK(bench_infer(tiny_config("none.h5", {}), quick(0)).decode.empty());
}

TEST_CASE("A token reads all weights but those of tables that only lend rows") {
  const Decoder opt(small_opt({}), 1), phi(small_phi({}), 1);
  CHECK(static_cast<double>(weight_bytes_read(opt)) == bytes_of(opt) - bytes_of(opt, "wpe.weight"));
  CHECK(static_cast<double>(weight_bytes_read(phi)) == bytes_of(phi) - bytes_of(phi, "wte.weight"));
  DecoderConfig c = small_opt({});
  c.folded_tie = FoldedTie::rank_one;
  const Decoder corrected(c, 1);
  CHECK(weight_bytes_read(corrected) == weight_bytes_read(opt) + 13 * sizeof(double));
}

TEST_CASE("bench infer decodes with decoders alone; JSON and table say so") {
  const TemporaryFolder folder;
  for (const TinyFamily& family : tiny_families(folder)) {
    INFO(family.name);
    const Config config = family_config(family);
    InferBenchOptions o = quick(2);
    o.shapes = {reads_images(config) ? "1" : "1x8"};
    const InferBench bench = bench_infer(config, o);
    const bool decoder = task_of(config) == Task::language_model;
    CHECK(bench.decode.size() == (decoder ? bench.rows.size() : 0));
    const nlohmann::json rows = infer_bench_json({bench}).at("decode");
    CHECK(rows.size() == bench.decode.size());
    const bool shown = infer_bench_table(bench).find("with a KV cache") != std::string::npos;
    CHECK(shown == decoder);
    if (!decoder) continue;
    for (const char* key :
         {"model", "dtype", "arm", "batch", "seq", "tokens", "median_ms", "tokens_per_s",
          "speedup_ci95", "ceiling_ci95", "share_of_ceiling", "weight_mb", "cache_mb",
          "read_gb_per_s", "weight_floor_ms", "over_weight_floor", "over_read_floor", "peak_mb"})
      CHECK(rows[0].contains(key));
  }
}
