// The decoder and its presets: what a token sees, positions, arms, heads, errors.
#include "layers/decoder.h"

#include "tests/support/catch.h"
#include "tests/support/text_models.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kRounding = 1e-12;  // other sizes of products: another order of sums
constexpr double kVisible = 1e-3;

using Preset = DecoderConfig (*)(const ModelVariant&);
constexpr Preset kPresets[] = {small_opt, small_phi, small_bloom};

std::unique_ptr<Decoder> make(const DecoderConfig& config) {
  auto model = std::make_unique<Decoder>(config, 7);
  randomize_norms(*model, 3);
  return model;
}

Tensor part(const Tensor& y, int64_t b, int64_t from, int64_t to) {
  return y.slice(0, b, b + 1).slice(1, from, to).contiguous();
}

Tensor with_value(const Tensor& ids, int64_t place) {
  Tensor out = ids.clone();
  int32_t& id = out.data<int32_t>()[place];
  id = (id + 1) % 13;
  return out;
}

std::string names(const Module& model) {
  std::string out;
  for (const ParameterPtr& p : model.parameters()) out += p->name() + " ";
  return out;
}

}  // namespace

TEST_CASE("OPT, Phi and BLOOM train in every arm") {
  for (const Preset preset : kPresets) {
    INFO(preset({}).kind);
    check_model([&](const ModelVariant& v) { return std::make_unique<Decoder>(preset(v), 7); },
                preset == small_opt   ? 5
                : preset == small_phi ? 3
                                      : 6);
  }
}

TEST_CASE("A decoder's token sees those before it; padding and wanted rows") {
  for (const Preset preset : kPresets) {
    INFO(preset({}).kind);
    const auto model = make(preset({}));
    const ModelInput input = model->example(2, 1);  // sample 0: 5 of 6 tokens
    const Tensor y = model->logits(input, {}).value();
    ModelInput other = input;
    other.ids = with_value(input.ids, 3);
    const Tensor z = model->logits(other, {}).value();
    CHECK(relative_difference(part(y, 0, 0, 3), part(z, 0, 0, 3)) == 0);
    CHECK(relative_difference(part(y, 0, 4, 5), part(z, 0, 4, 5)) > kVisible);
    ModelInput alone;
    alone.ids = input.ids.slice(0, 0, 1).slice(1, 0, 5).contiguous();
    CHECK(relative_difference(part(y, 0, 0, 5), model->logits(alone, {}).value()) < kRounding);
    CHECK(relative_difference(part(y, 0, 4, 5).reshape({1, 13}),
                              model->last_logits(alone.ids, {}).value()) < kRounding);
    other = input;
    other.rows = Tensor::from<int32_t>({8, 1}, {2});
    const Tensor rows = model->logits(other, {}).value();
    CHECK(relative_difference(part(y, 1, 2, 3).reshape({1, 13}), rows.slice(0, 0, 1).contiguous()) <
          kRounding);
  }
}

TEST_CASE("Every kind of position tells two equal tokens apart") {
  for (const Preset preset : kPresets) {
    DecoderConfig c = preset({});
    INFO(c.kind);
    // Token 5 once after 1, 2 and once after 2, 1: only positions tell these apart.
    const auto gap = [](Decoder& model) {
      const auto last = [&](std::vector<int32_t> ids) {
        return model.last_logits(Tensor::from(ids, {1, 3}), {}).value();
      };
      return relative_difference(last({1, 2, 5}), last({2, 1, 5}));
    };
    c.layers = 1;
    CHECK(gap(*make(c)) > kVisible);
    c.learned_positions = c.alibi = false;
    c.rotary = 0;
    CHECK(gap(*make(c)) < kRounding);
  }
}

TEST_CASE("The presets' parameters") {
  const std::string opt = names(*make(small_opt({}))), phi = names(*make(small_phi({})));
  const std::string bloom = names(*make(small_bloom({})));
  CHECK(opt.find("wpe.weight") != std::string::npos);
  CHECK(opt.find("head") == std::string::npos);
  CHECK(make(small_opt({}))->parameter("wpe.weight")->value().size(0) == 7 + 2);
  CHECK(phi.find("wpe") == std::string::npos);
  CHECK(phi.find("norm2") == std::string::npos);
  CHECK(phi.find("head.weight head.bias") != std::string::npos);
  CHECK(bloom.find("wte.weight embedding_norm.gamma embedding_norm.beta blocks.0.") == 0);
  CHECK(bloom.find("wpe") == std::string::npos);
}

TEST_CASE("OPT's first token has position 2") {
  const auto model = make(small_opt({}));
  const Tensor ids = Tensor::from<int32_t>({4, 9}, {1, 2});
  const Tensor before = model->logits({ids}, {}).value();
  Tensor& table = model->parameter("wpe.weight")->mutate();
  for (int64_t c = 0; c < 16; ++c) table.data<double>()[c] = 100;  // rows 0 and 1
  CHECK(relative_difference(before, model->logits({ids}, {}).value()) == 0);
  table.data<double>()[16] += 1;
  CHECK(relative_difference(before, model->logits({ids}, {}).value()) > kVisible);
}

TEST_CASE("CBWC and RMSNorm are LayerNorm in OPT and Phi, in BLOOM with one centring more") {
  for (const Preset preset : kPresets) {
    DecoderConfig c = preset({});
    INFO(c.kind);
    const auto ln = make(c);
    const ModelInput input = ln->example(3, 1);
    const ModelTargets targets = random_targets(ln->logits(input, {}).value(), 1);
    const ModelStep a = model_step(*ln, input, targets);
    c.norm = Norm::cbwc_rmsnorm;
    const ModelStep plain = model_step(*make(c), input, targets);
    c.auxiliary_centring = true;
    const ModelStep helped = model_step(*make(c), input, targets);
    for (const ModelStep* b : {&plain, &helped}) {
      const double outputs = relative_difference(a.logits, b->logits);
      const Difference gradients = relative_difference(a.gradients, b->gradients);
      INFO(gradients.name);
      if (b == &plain && preset == small_bloom) {
        CHECK(outputs > kVisible);
      } else {
        CHECK(outputs < kRounding);
        CHECK(gradients.largest < kRounding);
      }
    }
  }
}

TEST_CASE("ALiBi's slopes") {
  CHECK(alibi_slopes(4) == std::vector<double>({0.25, 0.0625, 0.015625, 0.00390625}));
  const std::vector<double> three = alibi_slopes(3);  // of two heads, then the first of four
  CHECK(three == std::vector<double>({0.0625, 0.00390625, 0.25}));
}

TEST_CASE("Decoders refuse what does not fit together") {
  DecoderConfig c = small_bloom({});
  c.residual_after_norm = true;
  CHECK_THROWS_WITH(Decoder(c, 1), ContainsSubstring("apply_residual_connection_post_layernorm"));
  c = small_phi({});
  c.rotary = 0.25;  // one channel of four
  CHECK_THROWS_WITH(Decoder(c, 1), ContainsSubstring("even"));
  c.rotary = 1.5;
  CHECK_THROWS_WITH(Decoder(c, 1), ContainsSubstring("rotary"));
  c = small_opt({});
  c.head_bias = true;
  CHECK_THROWS_WITH(Decoder(c, 1), ContainsSubstring("no bias"));
  c = small_opt({});
  c.heads = 3;
  CHECK_THROWS_WITH(Decoder(c, 1), ContainsSubstring("not divisible"));
  const auto model = make(small_opt({}));
  CHECK_THROWS_WITH(model->logits({Tensor::zeros({1, 8}, DType::i32)}, {}),
                    ContainsSubstring("7 positions"));
  CHECK_THROWS_WITH(model->logits({}, {}), ContainsSubstring("no ids"));
}
