// Translating with a cache: rows follow the beam, and the same translations come out as from whole
// passes.
#include "layers/beam_cache.h"

#include "tests/support/catch.h"
#include "tests/support/text_models.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

// Every step from a whole pass over its prefixes.
std::vector<std::vector<int32_t>> without_cache(EncoderDecoder& model, const ModelInput& input,
                                                const BeamOptions& options) {
  const auto next = [&](const Tensor& prefixes, const std::vector<int64_t>& sentences) {
    const int64_t width = prefixes.size(0) / std::ssize(sentences);
    ModelInput one;
    Tensor out;
    for (int64_t r = 0; r < prefixes.size(0); ++r) {
      const int64_t s = sentences[static_cast<size_t>(r / width)];
      one.ids = input.ids.slice(0, s, s + 1).contiguous();
      one.mask = input.mask.slice(0, s, s + 1).contiguous();
      one.decoder_ids = prefixes.slice(0, r, r + 1).contiguous();
      const Tensor y = model.logits(one, {}).value();
      if (!out.defined()) out = Tensor::empty({prefixes.size(0), y.size(2)}, y.dtype());
      out.slice(0, r, r + 1)
          .copy_from(y.slice(1, y.size(1) - 1, y.size(1)).reshape({1, y.size(2)}));
    }
    return out;
  };
  std::vector<std::vector<int32_t>> out;
  for (const auto& best : beam_search(input.ids.size(0), options, next))
    out.push_back(best[0].tokens);
  return out;
}

Tensor filled(const std::vector<int32_t>& values, int64_t rows) {
  return Tensor::from(values, {rows, std::ssize(values) / rows});
}

}  // namespace

TEST_CASE("Translations with a cache are those from whole passes") {
  size_t different = 0;
  for (const Placement placement : {Placement::pre, Placement::post}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      EncoderDecoderConfig c = small_encoder_decoder({});
      c.placement = placement;
      c.context = 11;
      c.sinusoidal = seed % 2 == 0;
      EncoderDecoder model(c, seed);
      randomize_norms(model, seed);
      const ModelInput input = model.example(5, seed);
      for (const int64_t beam : {1, 2, 4}) {
        INFO("seed " << seed << ", beam " << beam);
        const BeamOptions o{beam, 9, 1, 2, 1.0};
        const auto found = model.translate(input.ids, input.mask, o);
        CHECK(found == without_cache(model, input, o));
        for (const auto& text : found) different += text.size() > 2 && text[0] != text[1];
      }
    }
  }
  CHECK(different > 20);  // the texts are not one token over and over
}

TEST_CASE("A beam cache's rows follow their prefixes") {
  BeamCache beams(1, 1, 4, 1, DType::f64);
  KvCache& first = beams.follow(filled({1, 1}, 2), {7, 9});
  CHECK(first.length == 0);
  const auto append = [](KvCache& cache, const std::vector<double>& values) {
    const Tensor x = Tensor::from(values, {cache.batch, 1, 1, 1});
    KvSlot{&cache.layers[0], cache.length}.append(x, x);
    ++cache.length;
  };
  append(first, {70, 90});
  // Sentence 7 doubles: it goes on with 3 and 4; 9 with 5, and is filled up.
  KvCache& second = beams.follow(filled({1, 3, 1, 4, 1, 5, 1, 5}, 4), {7, 9});
  const auto seen = [](const KvCache& cache) {
    return cache.layers[0].keys.slice(2, 0, cache.length).contiguous().to_vector<double>();
  };
  CHECK(seen(second) == std::vector<double>({70, 70, 90, 90}));
  append(second, {73, 74, 95, 95});
  KvCache& third = beams.follow(filled({1, 4, 6, 1, 3, 6, 1, 5, 6, 1, 5, 7}, 4), {7, 9});
  CHECK(seen(third) == std::vector<double>({70, 74, 70, 73, 90, 95, 90, 95}));
  append(third, {76, 77, 96, 97});
  KvCache& last = beams.follow(filled({1, 5, 7, 8}, 1), {9});  // sentence 7 is done
  CHECK(seen(last) == std::vector<double>({90, 95, 97}));
  CHECK_THROWS_WITH(beams.follow(filled({1, 5, 6, 8, 8}, 1), {9}), ContainsSubstring("go on from"));
}
