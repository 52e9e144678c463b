// bench infer of a folder that `cbwc fold` wrote: the folded arm is what lies there, and the
// LayerNorm arm the model before, of every family and with everything that a fold can do.
#include <cmath>

#include "experiments/bench_infer.h"
#include "experiments/fold.h"
#include "experiments/json_output.h"
#include "experiments/unfold.h"
#include "layers/compare.h"
#include "tests/experiments/fold_families.h"
#include "tests/experiments/hf_fixtures.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kExact = 1e-10;   // the fold's own bound in float64
constexpr double kFloat32 = 1e-4;  // a few hundred roundings of 6e-8
constexpr double kHalf = 1e-2;     // a few roundings of 5e-4

InferBenchOptions quick(bool images) {
  InferBenchOptions o;
  o.shapes = {images ? "1" : "1x8"};
  o.seconds = 0;
  o.decode = 2;
  return o;
}

InferBench bench_of(const LoadedModel& folded, const InferBenchOptions& options) {
  const LoadedModel before = unfolded(folded);
  return bench_infer(before.config, options, &before, &folded);
}

}  // namespace

TEST_CASE("bench infer measures a folded run beside the model that it was, every family") {
  for (const FoldableFamily& family : foldable_families())
    for (const HeadTie tied : {HeadTie::rank_one, HeadTie::untie, HeadTie::runtime}) {
      if (!family.tied && tied != HeadTie::rank_one) continue;
      INFO(family.name << " " << head_tie_name(tied));
      const FoldedRun f(foldable_family_config(family), tied);
      const LoadedModel folded = load_model(f.out), was = load_model(f.run);
      const ModelInput input = was.model->example(3, 17);
      CHECK(relative_difference(was.model->logits(input, {}).value(),
                                unfolded(folded).model->logits(input, {}).value()) <= kExact);
      const InferBench bench = bench_of(folded, quick(reads_images(was.config)));
      CHECK(bench.all_norms == family.norms);
      CHECK(bench.norms == family.plain + family.auxiliary + family.carried);
      CHECK(bench.max_rel_difference > 0);
      CHECK(bench.max_rel_difference <= kExact);
      CHECK(std::isnan(bench.fold_ms));
      const bool part = bench.norms < bench.all_norms;
      REQUIRE(bench.rows.size() == (part ? 4 : 3));
      CHECK(bench.rows[0].arm == "layernorm");
      CHECK(bench.rows[1].arm == "folded");
      CHECK(bench.rows.back().arm == "none");
      CHECK(bench.decode.size() == (was.model->decodes() ? bench.rows.size() : 0));
      const std::string table = infer_bench_table(bench);
      CHECK_THAT(table, ContainsSubstring("layernorm: the same before the fold"));
      CHECK(table.find("pays") == std::string::npos);  // how long the fold took is not known
      const nlohmann::json json = infer_bench_json({bench});
      CHECK(json.at("models")[0].at("fold_ms").is_null());
      CHECK_THAT(infer_markdown({json}), !ContainsSubstring("never, or within noise"));
    }
}

TEST_CASE("bench infer measures a folded Hugging Face folder, in half precision too") {
  for (const StoredType type : {StoredType::f32, StoredType::f16}) {
    const TemporaryFolder folder;
    FoldRequest request;
    request.model = hf_fixture("gpt2");
    request.out = folder.file("folded");
    request.type = type;
    CHECK_FALSE(run_fold(request).failed);
    const auto r = run_cbwc(folder, "bench infer " + request.out +
                                        " --shapes 1x4 --seconds 0 --decode 2 --float64 --json " +
                                        folder.file("b.json"));
    INFO(r.err << r.out);
    REQUIRE(r.exit_code == 0);
    const nlohmann::json results = read_json(folder.file("b.json")).at("results");
    CHECK(results.at("rows").size() == 3);
    CHECK(results.at("decode").size() == 3);
    const nlohmann::json model = results.at("models")[0];
    CHECK(model.at("model") == "folded");
    CHECK(model.at("norms") == 5);
    CHECK(model.at("max_rel_difference") < (type == StoredType::f16 ? kHalf : kFloat32));
    CHECK(model.at("float64_rel_difference") < (type == StoredType::f16 ? kHalf : kFloat32));
  }
}

TEST_CASE("bench infer of a folded folder: what it refuses") {
  const FoldedRun f(foldable_family_config(foldable_families()[0]));
  LoadedModel folded = load_model(f.out);
  InferBenchOptions o = quick(false);
  o.affine = true;
  CHECK_THROWS_WITH(bench_of(folded, o), ContainsSubstring("is folded already"));
  LoadedModel other = load_model(f.out);
  other.attributes["folded"]["before"]["norm"] = "rmsnorm";  // its LayerNorms of queries and keys
  CHECK_THROWS_WITH(bench_of(other, quick(false)), ContainsSubstring("expected layernorm"));
  folded.attributes["folded"].erase("before");
  CHECK_THROWS_WITH(unfolded(folded), ContainsSubstring(f.out) && ContainsSubstring("damaged"));
}
