// Decoding with a KV cache (cases.md P55): token by token the same logits as the whole text at
// once, for every decoder; and what a wrong place in the cache would do.
#include "layers/kv_cache.h"

#include <cmath>
#include <functional>

#include "layers/centered_linear.h"
#include "layers/gpt.h"
#include "tests/support/catch.h"
#include "tests/support/small_gpt.h"
#include "tests/support/text_models.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kFloat64 = 1e-12;  // the same sums in another order, relative to the largest logit
constexpr double kFloat32 = 1e-5;
constexpr double kVisible = 1e-3;  // what a mistake leaves
constexpr int64_t kPrompt = 6, kSteps = 7, kTokens = kPrompt + kSteps, kVocab = 13;

using Preset = DecoderConfig (*)(const ModelVariant&);

DecoderConfig gpt_like(const ModelVariant& v) {
  DecoderConfig c = small_opt(v);
  c.kind = "GPT";
  c.first_position = 0;
  c.activation = Activation::gelu_tanh;
  return c;
}
DecoderConfig post_norm(const ModelVariant& v) {
  DecoderConfig c = gpt_like(v);
  c.placement = Placement::post;
  return c;
}
DecoderConfig with_qk_norm(const ModelVariant& v) {
  DecoderConfig c = gpt_like(v);
  c.qk_norm = QkNorm::layernorm;
  c.folded_tie = FoldedTie::rank_one;
  return c;
}
DecoderConfig phi_with_qk_norm(const ModelVariant& v) {
  DecoderConfig c = small_phi(v);
  c.qk_norm = QkNorm::rmsnorm;
  c.rotary = 1;
  return c;
}
DecoderConfig bloom_centred(const ModelVariant& v) {
  DecoderConfig c = small_bloom(v);
  c.auxiliary_centring = true;
  return c;
}
constexpr Preset kPresets[] = {gpt_like,  post_norm,        with_qk_norm, small_opt,
                               small_phi, phi_with_qk_norm, small_bloom,  bloom_centred};

std::unique_ptr<Decoder> make(DecoderConfig c, int64_t layers = 2) {
  c.context = kTokens + 7;
  c.layers = layers;
  auto model = std::make_unique<Decoder>(c, 7);
  randomize_norms(*model, 3);
  return model;
}

Tensor tokens(int64_t batch, int64_t count = kTokens) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < batch * count; ++i)
    ids.push_back(static_cast<int32_t>((i * i + 3 * i + i / count) % kVocab));
  return Tensor::from(ids, {batch, count});
}

Tensor part(const Tensor& ids, int64_t from, int64_t to) {
  return ids.slice(1, from, to).contiguous();
}

Tensor at(const Tensor& logits, int64_t place) {
  return logits.slice(1, place, place + 1).contiguous().reshape({logits.size(0), logits.size(2)});
}

// The largest difference to the whole text's logits, over the steps after the prompt.
double largest_difference(Decoder& model, const Tensor& ids) {
  const Tensor whole = model.logits({ids}, {}).value();
  KvCache cache = model.make_cache(ids.size(0), kTokens);
  double worst =
      relative_difference(at(whole, kPrompt - 1), model.next_logits(part(ids, 0, kPrompt), cache));
  for (int64_t t = kPrompt; t < kTokens; ++t) {
    CHECK(cache.length == t);
    const Tensor next = model.next_logits(part(ids, t, t + 1), cache);
    worst = std::max(worst, relative_difference(at(whole, t), next));
  }
  CHECK(cache.length == kTokens);
  return worst;
}

void fill_cache(const KvCache& cache, double value) {
  for (const KvCache::Layer& layer : cache.layers) {
    Tensor keys = layer.keys, values = layer.values;
    keys.fill(value);
    values.fill(value);
  }
}

// Row `from` of every layer's keys and values becomes row `to`.
void move_row(const KvCache& cache, int64_t from, int64_t to) {
  for (const KvCache::Layer& layer : cache.layers)
    for (const Tensor& x : {layer.keys, layer.values})
      x.slice(2, to, to + 1).copy_from(x.slice(2, from, from + 1).clone());
}

}  // namespace

TEST_CASE("P55: six tokens, then seven one by one, in every family and arm") {
  for (const Preset preset : kPresets) {
    for (const Norm norm : {Norm::layernorm, Norm::cbwc_rmsnorm, Norm::rmsnorm, Norm::none}) {
      ModelVariant v;
      v.norm = norm;
      const auto exact = make(preset(v));
      INFO(exact->describe());
      CHECK(largest_difference(*exact, tokens(2)) < kFloat64);
      v.dtype = DType::f32;
      CHECK(largest_difference(*make(preset(v)), tokens(2)) < kFloat32);
    }
  }
}

TEST_CASE("A Gpt decodes as the Decoder that it is") {
  Gpt model(small_gpt(Norm::cbwc_rmsnorm), 5);
  randomize_norms(model, 3);
  const Tensor ids = small_batch(0).ids;
  const Tensor whole = model.logits(ids, {}).value();
  KvCache cache = model.make_cache(ids.size(0), ids.size(1));
  CHECK(model.decodes());
  for (int64_t t = 0; t < ids.size(1); ++t)
    CHECK(relative_difference(at(whole, t), model.next_logits(part(ids, t, t + 1), cache)) <
          kFloat64);
}

TEST_CASE("Decoding centres a weight once, not at every token") {
  const auto model = make(small_opt({.norm = Norm::cbwc_rmsnorm}));
  const auto* writer = dynamic_cast<const CenteredLinear*>(model->find("blocks.0.attn.out"));
  REQUIRE(writer != nullptr);
  KvCache cache = model->make_cache(1, kTokens);
  for (int64_t t = 0; t < kTokens; ++t) model->next_logits(part(tokens(1), t, t + 1), cache);
  CHECK(writer->centered_weight().computed() == 1);
}

TEST_CASE("A batch of one decodes as each row of a batch, and a prompt in two chunks as in one") {
  for (const Preset preset : kPresets) {
    const auto model = make(preset({}));
    INFO(model->describe());
    const Tensor ids = tokens(3);
    KvCache together = model->make_cache(3, kTokens);
    Tensor last;
    for (const auto& [from, to] : {std::pair{0, 6}, {6, 7}, {7, 8}})
      last = model->next_logits(part(ids, from, to), together);
    for (int64_t b = 0; b < 3; ++b) {
      const Tensor row = ids.slice(0, b, b + 1);
      KvCache alone = model->make_cache(1, 8);
      model->next_logits(part(row, 0, 4), alone);
      model->next_logits(part(row, 4, 6), alone);
      model->next_logits(part(row, 6, 7), alone);
      CHECK(relative_difference(last.slice(0, b, b + 1).contiguous(),
                                model->next_logits(part(row, 7, 8), alone)) < kFloat64);
    }
  }
}

TEST_CASE("Cut or cleared, a cache goes on as if the rest had never been; nothing is recorded") {
  const auto model = make(small_phi({}));
  const Tensor ids = tokens(1);
  Tape tape;
  const TapeScope recording(&tape);
  KvCache cache = model->make_cache(1, kTokens);
  const Tensor first = model->next_logits(part(ids, 0, 6), cache);
  const Tensor next = model->next_logits(part(ids, 6, 7), cache);
  model->next_logits(part(ids, 3, 6), cache);
  cache.truncate(6);
  CHECK(relative_difference(next, model->next_logits(part(ids, 6, 7), cache)) == 0);
  cache.clear();
  fill_cache(cache, NAN);  // what lies behind the length is never read
  CHECK(relative_difference(first, model->next_logits(part(ids, 0, 6), cache)) == 0);
  CHECK(cache.bytes() == 2u * 2u * kTokens * 8u * sizeof(double));
  CHECK(tape.nodes().empty());
}

TEST_CASE("P55's mistake, an offset that jumps from 6 to 12, is seen in every family") {
  for (const Preset preset : kPresets) {
    const auto model = make(preset({}));
    INFO(model->describe());
    const Tensor ids = tokens(1);
    const Tensor whole = model->logits({ids}, {}).value();
    KvCache cache = model->make_cache(1, kTokens + 7);
    fill_cache(cache, 0);
    model->next_logits(part(ids, 0, kPrompt), cache);
    cache.length = 2 * kPrompt;
    const Tensor next = model->next_logits(part(ids, kPrompt, kPrompt + 1), cache);
    CHECK(relative_difference(at(whole, kPrompt), next) > kVisible);
  }
}

// With one block a token's key knows its own place alone.
TEST_CASE("Rotary positions lie in the keys, ALiBi's in their place") {
  const Tensor ids = tokens(1);
  const auto after = [&](Decoder& model, const std::function<void(KvCache&)>& change) {
    KvCache cache = model.make_cache(1, kTokens);
    fill_cache(cache, 0);
    model.next_logits(part(ids, 0, kPrompt), cache);
    change(cache);
    return relative_difference(at(model.logits({ids}, {}).value(), kPrompt),
                               model.next_logits(part(ids, kPrompt, kPrompt + 1), cache));
  };
  const auto swap_rows = [](KvCache& cache) {
    move_row(cache, 1, 12);
    move_row(cache, 2, 1);
    move_row(cache, 12, 2);
  };
  const auto phi = make(small_phi({}), 1), bloom = make(small_bloom({}), 1);
  const auto key_of_next_place = [&](Decoder& model) {
    return after(model, [&](KvCache& cache) {
      model.next_logits(part(ids, 5, 6), cache);  // token 5 again, now at position 6
      move_row(cache, 6, 5);
      cache.truncate(6);
    });
  };
  CHECK(after(*phi, [](KvCache&) {}) < kFloat64);
  CHECK(after(*bloom, [](KvCache&) {}) < kFloat64);
  CHECK(after(*phi, swap_rows) < kFloat64);
  CHECK(after(*bloom, swap_rows) > kVisible);
  CHECK(key_of_next_place(*phi) > kVisible);
  CHECK(key_of_next_place(*bloom) < kFloat64);
}

TEST_CASE("A cache that is full, of another model or of a model that does not decode is refused") {
  const auto model = make(gpt_like({}));
  const Tensor ids = tokens(2);
  KvCache cache = model->make_cache(2, 8);
  model->next_logits(part(ids, 0, 6), cache);
  CHECK_THROWS_WITH(
      model->next_logits(part(ids, 6, 9), cache),
      ContainsSubstring("3 tokens more than the 6 it holds") && ContainsSubstring("capacity of 8"));
  CHECK(cache.length == 6);
  Tensor unknown = part(ids, 6, 7).clone();
  unknown.data<int32_t>()[0] = kVocab;
  CHECK_THROWS_AS(model->next_logits(unknown, cache), Error);
  CHECK(cache.length == 6);
  CHECK_THROWS_WITH(model->next_logits(tokens(1, 1), cache), ContainsSubstring("made for 2 rows"));
  CHECK_THROWS_WITH(cache.truncate(7), ContainsSubstring("7") && ContainsSubstring("6"));
  CHECK_THROWS_WITH(model->make_cache(1, 21),
                    ContainsSubstring("21") && ContainsSubstring("20 pos"));
  CHECK_THROWS_WITH(model->make_cache(0, 4), ContainsSubstring("positive"));
  KvCache other = make(gpt_like({}), 1)->make_cache(2, 8);
  CHECK_THROWS_WITH(model->next_logits(ids, other), ContainsSubstring("another model"));
  Bert bert(small_bert({}, BertTask::mlm), 1);
  CHECK(!bert.decodes());
  CHECK_THROWS_WITH(bert.make_cache(1, 4), ContainsSubstring("decoder-only"));
  CHECK_THROWS_WITH(bert.next_logits(ids, cache), ContainsSubstring("decoder-only"));
}
