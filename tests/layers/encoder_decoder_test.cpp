// The encoder-decoder: what each token sees, padding, which norms fold, translation, errors.
#include "layers/encoder_decoder.h"

#include <algorithm>
#include <set>

#include "autograd/analysis/detector.h"
#include "tests/support/catch.h"
#include "tests/support/text_models.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kRounding = 1e-12;  // other sizes of products: another order of sums
constexpr double kVisible = 1e-3;

std::unique_ptr<EncoderDecoder> make(const EncoderDecoderConfig& config) {
  auto model = std::make_unique<EncoderDecoder>(config, 7);
  randomize_norms(*model, 3);
  return model;
}

EncoderDecoderConfig with(Placement placement, int64_t target_vocab = 0, bool tied = true) {
  EncoderDecoderConfig c = small_encoder_decoder({});
  c.placement = placement;
  c.target_vocab = target_vocab;
  c.tied_head = tied;
  return c;
}

Tensor part(const Tensor& y, int64_t b, int64_t from, int64_t to) {
  return y.slice(0, b, b + 1).slice(1, from, to).contiguous();
}

Tensor with_value(const Tensor& ids, int64_t place) {
  Tensor out = ids.clone();
  int32_t& id = out.data<int32_t>()[place];
  id = (id + 1) % 11;
  return out;
}

}  // namespace

TEST_CASE("The encoder-decoder trains in every arm, pre- and post-norm") {
  for (const Placement placement : {Placement::pre, Placement::post}) {
    INFO(placement_name(placement));
    check_model(
        [&](const ModelVariant& v) {
          EncoderDecoderConfig c = small_encoder_decoder(v);
          c.placement = placement;
          return std::make_unique<EncoderDecoder>(c, 7);
        },
        placement == Placement::pre ? 12 : 10);
  }
}

TEST_CASE("A target token sees the source and what is before it") {
  for (const Placement placement : {Placement::pre, Placement::post}) {
    const auto model = make(with(placement));
    const ModelInput input = model->example(2, 1);  // 6 source tokens (5 seen), 5 target tokens
    const Tensor y = model->logits(input, {}).value();
    REQUIRE(y.shape() == Shape{2, 5, 13});
    ModelInput other = input;
    other.decoder_ids = with_value(input.decoder_ids, 3);
    Tensor z = model->logits(other, {}).value();
    CHECK(relative_difference(part(y, 0, 0, 3), part(z, 0, 0, 3)) == 0);
    CHECK(relative_difference(part(y, 0, 3, 5), part(z, 0, 3, 5)) > kVisible);
    other = input;
    other.ids = with_value(input.ids, 4);
    z = model->logits(other, {}).value();
    CHECK(relative_difference(part(y, 0, 0, 1), part(z, 0, 0, 1)) > kVisible);
    CHECK(relative_difference(part(y, 1, 0, 5), part(z, 1, 0, 5)) == 0);
    other.ids = with_value(input.ids, 5);  // padding
    CHECK(relative_difference(y, model->logits(other, {}).value()) == 0);
  }
}

TEST_CASE("A padded source is as good as the short one") {
  const auto model = make(with(Placement::pre));
  const ModelInput input = model->example(2, 1);
  ModelInput alone;
  alone.ids = input.ids.slice(0, 0, 1).slice(1, 0, 5).contiguous();
  alone.decoder_ids = input.decoder_ids.slice(0, 0, 1).contiguous();
  const Tensor y = model->logits(input, {}).value();
  CHECK(relative_difference(part(y, 0, 0, 5), model->logits(alone, {}).value()) < kRounding);
  ModelInput some = input;
  some.rows = Tensor::from<int32_t>({9, 2}, {2});
  const Tensor z = model->logits(some, {}).value();
  REQUIRE(z.shape() == Shape{2, 13});
  CHECK(relative_difference(part(y, 1, 4, 5).reshape({1, 13}), z.slice(0, 0, 1).contiguous()) <
        kRounding);
}

TEST_CASE("Every pre-norm norm of the encoder-decoder folds, no post-norm one") {
  for (const bool sinusoidal : {true, false})
    for (const int64_t target_vocab : {0, 11})
      for (const bool tied : {true, false})
        for (const Placement placement : {Placement::pre, Placement::post}) {
          EncoderDecoderConfig c = with(placement, target_vocab, tied);
          c.sinusoidal = c.scale_embedding = sinusoidal;
          c.decoder_layers = 1;
          const auto model = make(c);
          Tape tape;
          const TapeScope scope(&tape);
          const Variable y = model->logits(model->example(2, 1), {});
          const Detection d = detect(graph_of(tape, {y}, false));
          const int norms = placement == Placement::pre ? 5 + 4 : 4 + 3;
          CHECK(static_cast<int>(d.norms.size()) == norms);
          CHECK(d.count(Verdict::foldable) == (placement == Placement::pre ? norms : 0));
          CHECK(d.count(Verdict::foldable_with_auxiliary) == 0);
          CHECK(d.ties.size() == (placement == Placement::pre && tied ? 1 : 0));
        }
}

TEST_CASE("CBWC and RMSNorm are LayerNorm in the pre-norm encoder-decoder") {
  for (const Placement placement : {Placement::pre, Placement::post})
    for (const bool sinusoidal : {true, false}) {
      EncoderDecoderConfig c = with(placement);
      c.sinusoidal = c.scale_embedding = sinusoidal;
      const auto ln = make(c);
      c.norm = Norm::cbwc_rmsnorm;
      const auto cbwc = make(c);
      const ModelInput input = ln->example(3, 1);
      const ModelTargets targets = random_targets(ln->logits(input, {}).value(), 1);
      const ModelStep a = model_step(*ln, input, targets), b = model_step(*cbwc, input, targets);
      const double outputs = relative_difference(a.logits, b.logits);
      const double gradients = relative_difference(a.gradients, b.gradients).largest;
      if (placement == Placement::pre) {
        CHECK(outputs < kRounding);
        CHECK(gradients < kRounding);
      } else {
        CHECK(outputs > kVisible);
      }
    }
}

TEST_CASE("Translating a batch is translating each sentence") {
  for (const int64_t beam : {1, 3}) {
    const auto model = make(with(Placement::pre, 11));
    const ModelInput input = model->example(6, 1);
    BeamOptions o{beam, 0, 1, 2, 1.0};
    const auto together = model->translate(input.ids, input.mask, o);
    std::set<std::vector<int32_t>> different(together.begin(), together.end());
    CHECK(different.size() > 1);
    for (int64_t b = 0; b < 6; ++b) {
      const Tensor ids = input.ids.slice(0, b, b + 1).contiguous();
      const Tensor mask = input.mask.slice(0, b, b + 1).contiguous();
      const auto alone = model->translate(ids, mask, o);
      CHECK(alone[0] == together[static_cast<size_t>(b)]);
      CHECK(alone[0].size() <= 7);
    }
  }
}

TEST_CASE("A greedy translation is the likeliest token of the logits, one after the other") {
  const auto model = make(with(Placement::post));
  const ModelInput input = model->example(2, 1);
  const auto found = model->translate(input.ids, input.mask, {1, 5, 1, 2, 1.0});
  for (int64_t b = 0; b < 2; ++b) {
    ModelInput one;
    one.ids = input.ids.slice(0, b, b + 1).contiguous();
    one.mask = input.mask.slice(0, b, b + 1).contiguous();
    std::vector<int32_t> prefix = {1};
    while (prefix.size() <= 5) {
      one.decoder_ids = Tensor::from(prefix, {1, static_cast<int64_t>(prefix.size())});
      const std::vector<double> y = model->logits(one, {}).value().to_vector<double>();
      const auto best = std::max_element(y.end() - 13, y.end()) - (y.end() - 13);
      if (best == 2) break;
      prefix.push_back(static_cast<int32_t>(best));
    }
    CHECK(found[static_cast<size_t>(b)] == std::vector<int32_t>(prefix.begin() + 1, prefix.end()));
  }
}

TEST_CASE("The encoder-decoder refuses wrong inputs") {
  const auto model = make(with(Placement::pre));
  ModelInput input = model->example(2, 1);
  input.decoder_ids = {};
  CHECK_THROWS_WITH(model->logits(input, {}), ContainsSubstring("no decoder_ids"));
  input = model->example(2, 1);
  input.decoder_ids = input.decoder_ids.slice(0, 0, 1).contiguous();
  CHECK_THROWS_WITH(model->logits(input, {}), ContainsSubstring("2 rows of ids, 1 of decoder_ids"));
  input = model->example(2, 1);
  input.decoder_ids = Tensor::full({2, 5}, 13, DType::i32);
  CHECK_THROWS_WITH(model->logits(input, {}), ContainsSubstring("13"));
  EncoderDecoderConfig c = with(Placement::pre);
  c.decoder_layers = -1;
  CHECK_THROWS_AS(EncoderDecoder(c, 1), Error);
}
