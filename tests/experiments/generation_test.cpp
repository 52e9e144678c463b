// generate: the same text as without a cache, also where the window slides and after folding; what
// drawing takes.
#include "experiments/generation.h"

#include <algorithm>
#include <cmath>

#include "experiments/fold.h"
#include "experiments/model_graph.h"
#include "layers/compare.h"
#include "layers/folding.h"
#include "tests/experiments/fold_families.h"
#include "tests/support/catch.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kFloat64 = 1e-12;  // the same sums in another order, relative to the largest logit
constexpr double kVisible = 1e-3;
constexpr int64_t kContext = 12, kVocab = 17;

std::unique_ptr<Model> model_of(const std::string& family,
                                const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets = {"model.family=" + family};
  sets.insert(sets.end(), more.begin(), more.end());
  const Config config = foldable_family_config({family, {}, 0, 0}, sets);
  std::unique_ptr<Model> model = build_model(config, {.vocab = kVocab}, 1);
  randomize_norms(*model, 3);
  return model;
}

// As generate() was before there was a cache: every token from a whole pass over the window.
std::vector<int32_t> without_cache(Model& model, std::vector<int32_t> ids,
                                   const GenerationOptions& o) {
  const size_t prompt = ids.size();
  Rng rng(o.seed, "generate");
  for (int64_t i = 0; i < o.tokens; ++i) {
    const int64_t used = std::min(std::ssize(ids), o.context);
    const std::vector<int32_t> window(ids.end() - used, ids.end());
    const Tensor y = model.last_logits(Tensor::from(window, {1, used}), {}).value();
    ids.push_back(draw_token(y.to_vector<double>(), o, rng));
  }
  return {ids.begin() + static_cast<int64_t>(prompt), ids.end()};
}

GenerationOptions options_of(double temperature, int64_t top_k) {
  GenerationOptions o;
  o.tokens = 25;  // the window slides from the ninth on
  o.context = kContext;
  o.temperature = temperature;
  o.top_k = top_k;
  o.seed = 5;
  return o;
}

// Drawing by a full sort of the same candidates.
int32_t draw_sorted(const std::vector<double>& logits, const GenerationOptions& o, Rng& rng) {
  std::vector<int32_t> order;
  for (int32_t i = 0; i < std::ssize(logits); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (o.top_k > 0) order.resize(static_cast<size_t>(o.top_k));
  std::sort(order.begin(), order.end());
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0, seen = 0;
  for (int32_t id : order) sum += std::exp((logits[static_cast<size_t>(id)] - top) / o.temperature);
  const double at = rng.uniform() * sum;
  for (int32_t id : order) {
    seen += std::exp((logits[static_cast<size_t>(id)] - top) / o.temperature);
    if (at < seen) return id;
  }
  return order.back();
}

}  // namespace

TEST_CASE("generate: the same text as from whole passes, also where the window slides") {
  for (const std::string family : {"gpt", "opt", "phi", "bloom"}) {
    const auto model = model_of(family);
    const std::vector<int32_t> prompt = {3, 1, 4, 1};
    for (const auto& [temperature, top_k] : {std::pair{0.0, 0}, {1.0, 0}, {2.0, 5}}) {
      INFO(family << ", temperature " << temperature << ", top " << top_k);
      const GenerationOptions o = options_of(temperature, top_k);
      const std::vector<int32_t> text = generate(*model, prompt, o);
      CHECK(text.size() == 25);
      CHECK(text == without_cache(*model, prompt, o));
      CHECK(text == generate(*model, prompt, o));
    }
    // A prompt longer than the context: its end is read.
    std::vector<int32_t> longer;
    for (int32_t i = 0; i < 20; ++i) longer.push_back(i * i % 17);
    const GenerationOptions o = options_of(1, 0);
    CHECK(generate(*model, longer, o) == without_cache(*model, longer, o));
  }
}

TEST_CASE("generate: another seed, an end, fewer ids") {
  const auto model = model_of("gpt");
  GenerationOptions o = options_of(1, 0);
  const std::vector<int32_t> text = generate(*model, {3}, o);
  o.end = text[4];
  const std::vector<int32_t> ended = generate(*model, {3}, o);
  const auto end = std::find(text.begin(), text.end(), o.end);
  CHECK(ended == std::vector<int32_t>(text.begin(), end + 1));
  o.end = -1;
  o.seed = 6;
  CHECK(generate(*model, {3}, o) != text);
  o.vocab = 4;
  const std::vector<int32_t> few = generate(*model, {3}, o);
  CHECK(*std::max_element(few.begin(), few.end()) < 4);
  CHECK_THROWS_WITH(generate(*model, {}, o), ContainsSubstring("a token to go on from"));
  CHECK_THROWS_WITH(generate(*model_of("bert", {"model.task=mlm"}), {3}, o),
                    ContainsSubstring("decoder-only"));
}

TEST_CASE("draw_token takes the likeliest, the k likeliest as a full sort finds them, and no NaN") {
  std::vector<double> logits;
  for (int i = 0; i < 60; ++i) logits.push_back(std::round(3 * std::sin(0.7 * i)));  // many ties
  for (const int64_t k : {0, 1, 7, 20, 59, 60, 100}) {
    INFO("top " << k);
    GenerationOptions o = options_of(0.8, k);
    Rng a(1, "a"), b(1, "a");
    GenerationOptions sorted = o;
    sorted.top_k = std::min<int64_t>(k, 60);
    for (int i = 0; i < 50; ++i) CHECK(draw_token(logits, o, a) == draw_sorted(logits, sorted, b));
  }
  Rng rng(1, "a");
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  CHECK(draw_token(logits, options_of(0, 0), rng) == best);
  CHECK(draw_token(logits, options_of(1, 1), rng) == best);
  logits[3] = NAN;
  CHECK_THROWS_AS(draw_token(logits, options_of(0, 0), rng), RunError);
  logits[3] = INFINITY;
  CHECK_THROWS_AS(draw_token(logits, options_of(1, 0), rng), RunError);
}

TEST_CASE("P55 after folding: token by token as the whole text, folded or not") {
  const Tensor ids = Tensor::from<int32_t>({3, 1, 4, 1, 5, 9, 2, 6, 5, 3}, {1, 10});
  for (const std::string family : {"gpt", "opt", "phi", "bloom"}) {
    for (const HeadTie tied : {HeadTie::rank_one, HeadTie::untie, HeadTie::runtime}) {
      for (const bool auxiliary : {false, true}) {
        INFO(family << " " << head_tie_name(tied) << (auxiliary ? ", auxiliary centring" : ""));
        const auto whole = model_of(family), folded = model_of(family);
        const Detection found = detect(record_graph(*folded, false), !auxiliary);
        apply_fold(*folded, plan_fold(found, {tied, auxiliary}));
        const Tensor expected = whole->logits({ids}, {}).value();
        KvCache cache = folded->make_cache(1, 10);
        folded->next_logits(ids.slice(1, 0, 5).contiguous(), cache);
        for (int64_t t = 5; t < 10; ++t) {
          const Tensor next = folded->next_logits(ids.slice(1, t, t + 1).contiguous(), cache);
          const Tensor row = expected.slice(1, t, t + 1).contiguous().reshape({1, kVocab});
          CHECK(relative_difference(row, next) < kFloat64);
        }
        cache.truncate(5);
        cache.length = 8;  // a wrong place is seen
        const Tensor wrong = folded->next_logits(ids.slice(1, 5, 6).contiguous(), cache);
        const Tensor row = expected.slice(1, 5, 6).contiguous().reshape({1, kVocab});
        CHECK(relative_difference(row, wrong) > kVisible);
      }
    }
  }
}
