// cbwc equiv on every family: exact where the detector says so for each norm, and only there.
#include "experiments/equiv.h"
#include "experiments/model_graph.h"
#include "experiments/training_data.h"
#include "tests/experiments/fold_families.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::foldable_families;
using testing::foldable_family_config;
using testing::FoldableFamily;

TEST_CASE("equiv of every family is exact where its norms are") {
  for (const FoldableFamily& family : foldable_families()) {
    INFO(family.name);
    const Config config = foldable_family_config(
        family, {"model.norm=cbwc_rmsnorm", "equiv.steps=2", "equiv.batch=2", "model.vocab=40"});
    int exact = 0, all = 0;
    for (const NormExactness& n : norm_exactness(config, cbwc::random_data(config, 1, 1).shape)) {
      ++all;
      exact += n.exact;
    }
    // The arm leaves LayerNorms of queries and keys alone.
    const int left_alone = config.model.qk_norm == "layernorm" ? 4 : 0;
    CHECK(all == family.norms - left_alone);
    CHECK(exact == family.plain - left_alone);
    const EquivReport report = run_equiv(config, {});
    INFO(equiv_table(report));
    CHECK_FALSE(report.failed);
    for (const EquivCase& c : report.cases) {
      CHECK(c.expected_exact == (family.plain == family.norms));
      CHECK(c.exact == c.expected_exact);
      CHECK((c.output_max_rel > 1e-3) != c.exact);
    }
  }
}
