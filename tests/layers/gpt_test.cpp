// The GPT: what is on the tape, ties, dropout streams, statistics, the projected arm, errors.
#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/small_gpt.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

struct TapeCounts {
  int layer_norm = 0, rms_norm = 0, center_parameter = 0, center_activation = 0;
};

TapeCounts count_ops(const GptConfig& config) {
  Gpt model(config, 1);
  Tape tape;
  const TapeScope scope(&tape);
  const SmallBatch batch = small_batch(0);
  Rng rng(1, "dropout");
  model.loss(batch.ids, batch.targets, {true, &rng, nullptr});
  TapeCounts out;
  for (const TapeNode& node : tape.nodes()) {
    const std::string name = node.op->name();
    out.layer_norm += name == "layer_norm";
    out.rms_norm += name == "rms_norm";
    if (name != "center") continue;
    const bool of_parameter = tape.values()[node.inputs[0]].parameter != nullptr;
    out.center_parameter += of_parameter;
    out.center_activation += !of_parameter;
  }
  return out;
}

double mean_loss(Gpt& model, const SmallBatch& batch) {
  const CrossEntropyResult r = model.loss(batch.ids, batch.targets, {});
  return r.loss_sum.value().item() / static_cast<double>(r.count);
}

}  // namespace

TEST_CASE("the CBWC arm's tape has no LayerNorm and centres no activation") {
  const TapeCounts cbwc = count_ops(small_gpt(Norm::cbwc_rmsnorm));
  CHECK(cbwc.layer_norm == 0);
  CHECK(cbwc.rms_norm == 5);
  CHECK(cbwc.center_activation == 0);
  CHECK(cbwc.center_parameter == 8);  // weight and bias of two writers in two blocks

  const TapeCounts plain = count_ops(small_gpt(Norm::layernorm));
  CHECK(plain.layer_norm == 5);
  CHECK(plain.rms_norm + plain.center_parameter + plain.center_activation == 0);

  GptConfig centred = small_gpt(Norm::cbwc_rmsnorm);
  centred.dropout = 0.1;
  centred.dropout_placement = DropoutPlacement::centred;
  const TapeCounts counts = count_ops(centred);
  CHECK(counts.center_parameter == 0);
  CHECK(counts.center_activation == 5);  // one per branch, one after the embedding sum
}

TEST_CASE("module scopes name the ops") {
  Gpt model(small_gpt(Norm::layernorm), 1);
  Tape tape;
  const TapeScope scope(&tape);
  model.logits(small_batch(0).ids, {});
  bool found = false;
  for (const TapeNode& node : tape.nodes()) found |= node.scope == "blocks.1.attn.out";
  CHECK(found);
}

TEST_CASE("a tied table's gradient is that of both uses") {
  for (const Norm norm : {Norm::layernorm, Norm::cbwc_rmsnorm}) {
    INFO(norm_name(norm));
    Gpt model(small_gpt(norm), 7);
    randomize_norms(model, 3);
    const SmallBatch batch = small_batch(0);
    const Tensor grad = run_step(model, batch).gradients.at("wte.weight");
    const ParameterPtr table = model.parameter("wte.weight");
    const Tensor start = table->value().clone();
    Tensor direction = Tensor::zeros_like(start);
    Rng rng(5, "direction");
    fill_normal(direction, 0, 1, rng);
    double analytic = 0;
    for (int64_t i = 0; i < grad.numel(); ++i) {
      analytic += grad.data<double>()[i] * direction.data<double>()[i];
    }
    const auto at = [&](double h) {
      for (int64_t i = 0; i < start.numel(); ++i) {
        table->mutate().data<double>()[i] =
            start.data<double>()[i] + h * direction.data<double>()[i];
      }
      return mean_loss(model, batch);
    };
    const double h = 1e-4;  // fourth order: an error of about 1e-12 relative
    const double numeric = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
    CHECK(std::abs(numeric - analytic) <= 1e-8 * std::abs(analytic));
    CHECK(std::abs(numeric - 1.001 * analytic) > 1e-8 * std::abs(analytic));
  }
}

TEST_CASE("dropout repeats with its stream and changes with another") {
  for (const DropoutPlacement placement :
       {DropoutPlacement::element, DropoutPlacement::before_projection, DropoutPlacement::path,
        DropoutPlacement::centred}) {
    INFO(dropout_placement_name(placement));
    GptConfig config = small_gpt(Norm::cbwc_rmsnorm);
    config.dropout = 0.3;
    config.dropout_placement = placement;
    config.attention_dropout = 0.1;
    Gpt model(config, 7);
    const StepResult a = run_step(model, small_batch(0), true, 4);
    const StepResult b = run_step(model, small_batch(0), true, 4);
    const StepResult c = run_step(model, small_batch(0), true, 5);
    CHECK(a.loss == b.loss);
    CHECK(relative_difference(a.gradients, b.gradients).largest == 0);
    CHECK(a.loss != c.loss);
    CHECK(run_step(model, small_batch(0), false, 4).loss ==
          run_step(model, small_batch(0), false, 5).loss);
    CHECK_THROWS_AS(model.logits(small_batch(0).ids, {true, nullptr, nullptr}), Error);
  }
}

TEST_CASE("norm statistics tell a centred stream from a plain one") {
  for (const Norm norm : {Norm::rmsnorm, Norm::cbwc_rmsnorm}) {
    Gpt model(small_gpt(norm), 7);
    randomize_norms(model, 3);
    LayerStatistics s;
    const Tensor with = model.logits(small_batch(0).ids, {false, nullptr, &s}).value();
    CHECK(relative_difference(with, model.logits(small_batch(0).ids, {}).value()) == 0);
    REQUIRE(s.norms.size() == 5);
    CHECK(s.norms[0].name == "blocks.0.norm1");
    CHECK(s.norms[4].name == "norm");
    for (const NormStatistics& n : s.norms) {
      CHECK((n.mean_ratio < 1e-12) == (norm == Norm::cbwc_rmsnorm));
      CHECK(n.rms > 0);
      CHECK(n.gain != 1.0);
    }
    REQUIRE(s.attentions.size() == 2);
    CHECK(s.attentions[1].name == "blocks.1.attn");
    CHECK(std::isfinite(s.attentions[0].largest_logit));
  }
}

TEST_CASE("the projected arm stores centred writers") {
  Gpt model(small_gpt(Norm::cbwc_projected), 7);
  randomize_norms(model, 3);
  model.project_parameters();
  const auto column_sum = [&](const std::string& name) {
    const Tensor w = model.parameter(name)->value();
    const int64_t rows = w.size(0), cols = w.rank() == 2 ? w.size(1) : 1;
    double worst = 0;
    for (int64_t c = 0; c < cols; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += w.data<double>()[r * cols + c];
      worst = std::max(worst, std::abs(sum));
    }
    return worst;
  };
  CHECK(column_sum("blocks.0.attn.out.weight") < 1e-13);
  CHECK(column_sum("blocks.1.mlp.down.bias") < 1e-13);
  CHECK(column_sum("blocks.0.attn.qkv.weight") > 1e-3);
  LayerStatistics s;
  model.logits(small_batch(0).ids, {false, nullptr, &s});
  for (const NormStatistics& n : s.norms) CHECK(n.mean_ratio < 1e-12);
}

TEST_CASE("wrong sizes and inputs are errors") {
  GptConfig config = small_gpt(Norm::layernorm);
  config.heads = 3;
  CHECK_THROWS_WITH(Gpt(config, 1), ContainsSubstring("not divisible by heads 3"));
  config.heads = 2;
  config.dropout = 1.0;
  CHECK_THROWS_AS(Gpt(config, 1), Error);
  Gpt model(small_gpt(Norm::layernorm), 1);
  const auto ids = [](int32_t value, int64_t t) {
    return Tensor::from(std::vector<int32_t>(static_cast<size_t>(t), value), {1, t});
  };
  CHECK_THROWS_WITH(model.logits(ids(0, 9), {}), ContainsSubstring("8 positions"));
  CHECK_THROWS_WITH(model.logits(ids(31, 4), {}), ContainsSubstring("31"));
  CHECK_THROWS_AS(model.logits(ids(-1, 4), {}), Error);
  CHECK_THROWS_AS(model.loss(ids(0, 4), ids(0, 5), {}), Error);
  CHECK_THROWS_WITH(parse_norm("batchnorm"), ContainsSubstring("cbwc_rmsnorm"));
  for (const Norm norm :
       {Norm::layernorm, Norm::rmsnorm, Norm::cbwc_rmsnorm, Norm::none, Norm::cbwc_projected}) {
    CHECK(parse_norm(norm_name(norm)) == norm);
  }
}

TEST_CASE("the last position's logits alone are those of the whole pass") {
  for (const Placement placement : {Placement::pre, Placement::post})
    for (const bool tied : {true, false}) {
      GptConfig config = small_gpt(Norm::layernorm);
      config.placement = placement;
      config.tied_head = tied;
      Gpt model(config, 1);
      randomize_norms(model, 3);
      const Tensor ids = small_batch(0).ids, all = model.logits(ids, {}).value();
      const int64_t t = ids.size(1);
      const auto row = [&](int64_t i) {
        return all.slice(1, i, i + 1).contiguous().reshape({ids.size(0), config.vocab});
      };
      const Tensor last = model.last_logits(ids, {}).value();
      CHECK(relative_difference(row(t - 1), last) < 1e-13);  // products of another shape: rounding
      CHECK(relative_difference(row(t - 2), last) > 0.01);
    }
}
