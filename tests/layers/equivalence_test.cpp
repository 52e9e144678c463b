// Linear + LayerNorm against CBWC + RMSNorm, the equality the project rests on, in float64.
#include "optim/adamw.h"
#include "tests/support/catch.h"
#include "tests/support/small_gpt.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kOutput = 1e-12;    // a few hundred roundings of 1.1e-16
constexpr double kGradient = 1e-10;  // as issue and method.md 8 ask
constexpr double kVisible = 1e-5;    // a true difference is far above both

// float32: the bound of the issue. Rounding of 6e-8 grows through two blocks to about 1e-6.
constexpr double kFloat32 = 1e-4;
constexpr double kWeights = 1e-8;  // after 100 AdamW steps, as the issue asks

StepDifference arms_differ(GptConfig config, bool training) {
  config.norm = Norm::layernorm;
  Gpt reference(config, 7);
  config.norm = Norm::cbwc_rmsnorm;
  Gpt model(config, 7);
  randomize_norms(reference, 3);
  randomize_norms(model, 3);
  return step_difference(run_step(reference, small_batch(0), training),
                         run_step(model, small_batch(0), training));
}

void check_exact(const GptConfig& config, bool training) {
  const StepDifference d = arms_differ(config, training);
  INFO("worst gradient " << d.gradients.name);
  CHECK(d.logits <= kOutput);
  CHECK(d.loss <= kOutput);
  CHECK(d.gradients.largest <= kGradient);
}

void copy_into(const Gpt& model, const std::string& name, const Tensor& value) {
  model.parameter(name)->mutate().copy_from(value);
}

}  // namespace

TEST_CASE("the LayerNorm and CBWC arms are one function") {
  GptConfig config = small_gpt(Norm::layernorm);
  SECTION("as it is") {}
  SECTION("untied head") { config.tied_head = false; }
  SECTION("no norm bias") { config.norm_bias = false; }
  SECTION("QK-RMSNorm") { config.qk_norm = QkNorm::rmsnorm; }
  SECTION("QK-LayerNorm") { config.qk_norm = QkNorm::layernorm; }
  SECTION("large eps") { config.norm_eps = 0.1; }
  SECTION("attention dropout") { config.attention_dropout = 0.2; }
  SECTION("exact GELU") { config.gelu = Gelu::erf; }
  check_exact(config, true);
  CHECK(Gpt(config, 1).inexact_pairs().empty());
}

TEST_CASE("dropout placements are exact or not as stated") {
  GptConfig config = small_gpt(Norm::layernorm);
  config.dropout = 0.2;
  for (const DropoutPlacement placement :
       {DropoutPlacement::before_projection, DropoutPlacement::path, DropoutPlacement::centred}) {
    INFO(dropout_placement_name(placement));
    config.dropout_placement = placement;
    check_exact(config, true);
    check_exact(config, false);
    CHECK(Gpt(config, 1).inexact_pairs().empty());
  }
  config.dropout_placement = DropoutPlacement::element;
  check_exact(config, false);  // dropout does nothing in evaluation
  const StepDifference d = arms_differ(config, true);
  CHECK(d.logits > kVisible);
  CHECK(d.gradients.largest > kVisible);

  const std::vector<InexactPair> pairs = Gpt(config, 1).inexact_pairs();
  REQUIRE(pairs.size() == 6);  // two tables, two writers in each of two blocks
  CHECK(pairs[0].producer == "wte");
  CHECK(pairs[0].norm == "blocks.0.norm1");
  CHECK(pairs[2].producer == "blocks.0.attn.out");
  CHECK(pairs[2].norm == "blocks.0.norm2");
  CHECK(pairs[3].producer == "blocks.0.mlp.down");
  CHECK(pairs[3].norm == "blocks.1.norm1");
  CHECK(pairs[5].norm == "norm");
  CHECK(pairs[5].reason.find("0.2") != std::string::npos);
}

TEST_CASE("post-norm CBWC is not exact and says where") {
  GptConfig config = small_gpt(Norm::cbwc_rmsnorm);
  config.placement = Placement::post;
  CHECK(arms_differ(config, false).logits > kVisible);
  const std::vector<InexactPair> pairs = Gpt(config, 1).inexact_pairs();
  REQUIRE(pairs.size() == 5);
  CHECK(pairs[0].norm == "blocks.0.norm1");
  CHECK(pairs[2].producer == "blocks.0.norm1");
  CHECK(pairs[2].norm == "blocks.0.norm2");
  CHECK(pairs[3].producer == "blocks.0.norm2");
  CHECK(pairs[3].norm == "blocks.1.norm1");
}

TEST_CASE("centring left out of one layer is seen") {
  GptConfig config = small_gpt(Norm::layernorm);
  config.tied_head = false;
  Gpt reference(config, 7);
  randomize_norms(reference, 3);
  config.norm = Norm::cbwc_projected;
  Gpt projected(config, 7);
  randomize_norms(projected, 3);
  projected.project_parameters();
  config.norm = Norm::rmsnorm;
  Gpt model(config, 7);
  model.load_state(projected.state());
  const StepResult expected = run_step(reference, small_batch(0));
  CHECK(step_difference(expected, run_step(model, small_batch(0))).logits <= kOutput);
  for (const char* name : {"wte.weight", "wpe.weight", "blocks.0.attn.out.weight",
                           "blocks.0.attn.out.bias", "blocks.1.mlp.down.weight"}) {
    INFO(name);
    copy_into(model, name, reference.parameter(name)->value());
    CHECK(step_difference(expected, run_step(model, small_batch(0))).logits > kVisible);
    copy_into(model, name, projected.parameter(name)->value());
  }
}

TEST_CASE("twenty SGD steps stay together, and part when centring is done only once") {
  GptConfig config = small_gpt(Norm::layernorm);
  config.tied_head = false;
  const auto train = [&](Norm norm) {
    config.norm = norm;
    auto model = std::make_unique<Gpt>(config, 7);
    randomize_norms(*model, 3);
    model->project_parameters();  // acts in the projected arm only: here, once and never again
    for (int step = 0; step < 20; ++step) {
      sgd_step(*model, run_step(*model, small_batch(step)).gradients, 0.1);
    }
    return model;
  };
  const auto reference = train(Norm::layernorm), cbwc = train(Norm::cbwc_rmsnorm),
             once = train(Norm::cbwc_projected);
  CHECK(relative_difference(reference->state(), cbwc->state()).largest <= 1e-9);
  const StepResult expected = run_step(*reference, small_batch(20));
  CHECK(step_difference(expected, run_step(*cbwc, small_batch(20))).logits <= 1e-9);
  CHECK(step_difference(expected, run_step(*once, small_batch(20))).logits > kVisible);
}

TEST_CASE("float32 arms agree to float32's rounding") {
  for (const bool bias : {true, false}) {
    GptConfig config = small_gpt(Norm::layernorm, DType::f32);
    config.norm_bias = bias;
    const StepDifference d = arms_differ(config, true);
    INFO("worst gradient " << d.gradients.name);
    CHECK(d.logits <= kFloat32);
    CHECK(d.loss <= kFloat32);
    CHECK(d.gradients.largest <= kFloat32);
    CHECK(d.gradients.largest > 0);
  }
}

TEST_CASE("100 AdamW steps with decay on the proxy stay together") {
  const auto train = [](Norm norm) {
    auto model = std::make_unique<Gpt>(small_gpt(norm), 7);
    randomize_norms(*model, 3);
    FlatParameters flat(model->parameters());
    AdamW optimiser(flat, {0.9, 0.95, 1e-8, 0.1});
    for (int step = 0; step < 100; ++step) {
      run_step(*model, small_batch(step));
      optimiser.step(1e-3);
    }
    return model;
  };
  // A key bias has a gradient of rounding noise only; Adam's eps of 1e-8 keeps it from moving.
  const NamedTensors reference = train(Norm::layernorm)->state();
  const Difference d = relative_difference(reference, train(Norm::cbwc_rmsnorm)->state());
  INFO("worst " << d.name);
  CHECK(d.largest <= kWeights);
  CHECK(relative_difference(reference, train(Norm::rmsnorm)->state()).largest > kVisible);
}

TEST_CASE("all arms start from the same numbers") {
  const NamedTensors reference = Gpt(small_gpt(Norm::layernorm), 7).state();
  for (const Norm norm : {Norm::rmsnorm, Norm::cbwc_rmsnorm, Norm::none}) {
    const NamedTensors state = Gpt(small_gpt(norm), 7).state();
    CHECK((state.size() == reference.size()) == (norm != Norm::none));
    for (const auto& [name, value] : state) {
      INFO(norm_name(norm) << " " << name);
      CHECK(relative_difference(reference.at(name), value) == 0);
    }
  }
  const NamedTensors other = Gpt(small_gpt(Norm::layernorm), 8).state();
  CHECK(relative_difference(reference, other).largest > 0.1);
}
