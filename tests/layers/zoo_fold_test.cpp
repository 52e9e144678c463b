// Folding the zoo: what is foldable gives the same outputs, what is refused would not.
#include "tests/support/zoo_fold.h"
#include <algorithm>

#include "autograd/ops/embedding.h"
#include "autograd/ops/linear.h"
#include "tests/support/catch.h"

namespace cbwc::testing {
namespace {

// Rounding of a few layers, relative to the largest output.
constexpr double kExact = 1e-10, kFloat32 = 1e-4;
constexpr double kZeroMean = 1e-12;  // |mean| / rms of a folded norm's input
constexpr double kVisible = 1e-3;    // a wrong fold changes the outputs by at least this

struct Pair {
  std::unique_ptr<ZooModel> source, folded;
  FoldPlan plan;
};

Pair folded(const ZooNetwork& zoo, DType dtype, const FoldOptions& options) {
  Pair out{zoo.make(dtype, 1), zoo.make(dtype, 1), {}};
  out.plan = plan_fold(detect_in(*out.source, zoo.training), options);
  apply_fold(out.folded->module(), out.plan);
  return out;
}

void check_same_outputs(const ZooNetwork& zoo, const Pair& pair, double tolerance) {
  for (uint64_t inputs : {1, 2}) {
    CHECK(output_difference(outputs_of(*pair.source, zoo.training, inputs),
                            outputs_of(*pair.folded, zoo.training, inputs)) < tolerance);
  }
}

// A second detection finds nothing more, and applying it changes no bit.
void check_folded_twice(const ZooNetwork& zoo, ZooModel& model, const FoldOptions& options) {
  const NamedTensors once = copied(model.module());
  const FoldPlan again = plan_fold(detect_in(model, zoo.training), options);
  CHECK(again.norms.empty());
  CHECK(again.centre.empty());
  CHECK(again.auxiliary.empty());
  apply_fold(model.module(), again);
  CHECK(same_bits(once, copied(model.module())));
}

void check_fold(const ZooNetwork& zoo, const FoldOptions& options) {
  INFO("network: " << zoo.name << ", " << head_tie_name(options.tied)
                   << (options.auxiliary_centring ? ", auxiliary centring" : ""));
  const NamedTensors original = copied(zoo.make(DType::f64, 1)->module());
  Pair pair = folded(zoo, DType::f64, options);
  int expected = zoo.count(Verdict::foldable);
  if (options.auxiliary_centring) expected += zoo.count(Verdict::foldable_with_auxiliary);
  REQUIRE(static_cast<int>(pair.plan.norms.size()) == expected);
  check_same_outputs(zoo, pair, kExact);
  CHECK(largest_mean(*pair.folded, zoo.training, pair.plan.norms) < kZeroMean);
  CHECK(same_bits(original, copied(pair.source->module())));
  CHECK(same_bits(original, copied(pair.folded->module())) ==
        pair.plan.changed_parameters().empty());
  check_folded_twice(zoo, *pair.folded, options);
  check_same_outputs(zoo, folded(zoo, DType::f32, options), kFloat32);
}

// Before the fold, the input of a norm that rests on a centred layer does have a mean.
void check_control(const ZooNetwork& zoo, const FoldOptions& options) {
  const Pair pair = folded(zoo, DType::f64, options);
  for (const ZooNorm& norm : zoo.norms) {
    const auto& converted = pair.plan.norms;
    if (std::find(converted.begin(), converted.end(), norm.name) == converted.end()) continue;
    if (norm.leaves && norm.leaves->empty()) continue;
    INFO("norm " << norm.name);
    CHECK(largest_mean(*pair.source, zoo.training, {norm.name}) > kVisible);
  }
}

double forced_difference(const ZooNetwork& zoo, const std::string& norm,
                         const std::vector<std::string>& layers) {
  const auto source = zoo.make(DType::f64, 1), forced = zoo.make(DType::f64, 1);
  Module& m = forced->module();
  apply_fold(m, forced_plan(m, norm, parameters_of(m, layers)));
  return output_difference(outputs_of(*source, zoo.training), outputs_of(*forced, zoo.training));
}

void check_refusals(const ZooNetwork& zoo) {
  for (const ZooNorm& norm : zoo.norms) {
    if (norm.verdict != Verdict::not_foldable || !norm.is_module) continue;
    INFO("network: " << zoo.name << ", norm " << norm.name);
    CHECK(forced_difference(zoo, norm.name, {}) > kVisible);
    if (norm.leaves) CHECK(forced_difference(zoo, norm.name, *norm.leaves) > kVisible);
  }
}

void check_all(const std::vector<ZooNetwork>& networks) {
  REQUIRE_FALSE(networks.empty());
  for (const ZooNetwork& zoo : networks) {
    check_fold(zoo, {});
    check_control(zoo, {});
    if (zoo.count(Verdict::foldable_with_auxiliary) > 0) {
      check_fold(zoo, {HeadTie::rank_one, true});
      check_control(zoo, {HeadTie::rank_one, true});
    }
    check_refusals(zoo);
  }
}

}  // namespace

TEST_CASE("Zoo folds: single layers") { check_all(zoo_layers()); }
TEST_CASE("Zoo folds: readers, shared weights and dropout") { check_all(zoo_readers()); }
TEST_CASE("Zoo folds: attention and experts") { check_all(zoo_attention()); }
TEST_CASE("Zoo folds: Transformers") { check_all(zoo_transformers()); }
TEST_CASE("Zoo folds: the text models") { check_all(zoo_text()); }
TEST_CASE("Zoo folds: vision") { check_all(zoo_vision()); }
TEST_CASE("Zoo folds: Swin") { check_all(zoo_swin()); }
TEST_CASE("Zoo folds: recurrent cells") { check_all(zoo_recurrent()); }

TEST_CASE("Zoo folds: every way to settle a tie is exact, ignoring it is not") {
  int tied = 0;
  for (const ZooNetwork& zoo : zoo()) {
    if (zoo.ties.empty()) continue;
    ++tied;
    for (HeadTie tie : {HeadTie::rank_one, HeadTie::untie, HeadTie::runtime}) {
      check_fold(zoo, {tie, false});
      if (zoo.count(Verdict::foldable_with_auxiliary) > 0) check_fold(zoo, {tie, true});
    }
    INFO("network: " << zoo.name);
    const auto source = zoo.make(DType::f64, 1), careless = zoo.make(DType::f64, 1);
    FoldPlan plan = plan_fold(detect_in(*source, zoo.training), {});
    plan.ties.clear();
    apply_fold(careless->module(), plan);
    CHECK(output_difference(outputs_of(*source, zoo.training),
                            outputs_of(*careless, zoo.training)) > kVisible);
  }
  CHECK(tied >= 4);
}

// A weight read both ways, as in a tied autoencoder, needs a head that can be made right again.
TEST_CASE("Zoo folds: a tie without a tied head is an error that changes nothing") {
  ZooNet net(DType::f64, 1, [](ZooNet& n) -> std::vector<Variable> {
    const Variable table = n.parameter("table", {7, 8}, Role::embedding);
    const Tensor ids = n.ids("ids", {2, 5}, 7);
    const Variable u = n.layer_norm("norm", embedding(table, ids));
    const ScopeGuard scope("decoder");
    return {linear(u, table, Variable())};
  });
  randomize(net, 1);
  const NamedTensors before = copied(net);
  const Detection d = detect_in(net, false);
  REQUIRE(d.ties.size() == 1);
  CHECK(d.ties[0].head == "decoder");
  CHECK_THROWS_AS(apply_fold(net, plan_fold(d, {})), Error);
  CHECK(same_bits(before, copied(net)));
  CHECK(detect_in(net, false).count(Verdict::foldable) == 1);
}

TEST_CASE("Zoo folds: an auxiliary centring left out is seen") {
  for (const char* name : {"bloom", "clip vision"}) {
    INFO("network: " << name);
    const ZooNetwork zoo = zoo_network(name);
    const auto source = zoo.make(DType::f64, 1), careless = zoo.make(DType::f64, 1);
    FoldPlan plan = plan_fold(detect_in(*source, false), {HeadTie::rank_one, true});
    REQUIRE(plan.auxiliary == zoo.auxiliary);
    plan.auxiliary.clear();
    apply_fold(careless->module(), plan);
    CHECK(output_difference(outputs_of(*source, false), outputs_of(*careless, false)) > kVisible);
  }
}

}  // namespace cbwc::testing
