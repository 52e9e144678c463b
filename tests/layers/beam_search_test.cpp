// Beam search against trying every sequence, greedy search, batches, ends and errors.
#include "layers/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/rng.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

constexpr double kRounding = 1e-12;
constexpr int64_t kVocab = 4;  // token 3 begins, token 0 ends
constexpr int32_t kBegin = 3, kEnd = 0;

// A model of made-up numbers: logits are a function of the sentence and of the whole prefix.
std::vector<double> logits_of(int64_t sentence, const std::vector<int32_t>& prefix) {
  std::string key = std::to_string(sentence);
  for (const int32_t t : prefix) key.append(1, ',').append(std::to_string(t));
  Rng rng(11, key);
  std::vector<double> out;
  for (int64_t v = 0; v < kVocab; ++v) out.push_back(1.5 * rng.normal());
  return out;
}

Tensor next(const Tensor& prefixes, const std::vector<int64_t>& sentences) {
  const int64_t rows = prefixes.size(0), length = prefixes.size(1);
  const int64_t width = rows / static_cast<int64_t>(sentences.size());
  const std::vector<int32_t> ids = prefixes.to_vector<int32_t>();
  std::vector<double> out;
  for (int64_t r = 0; r < rows; ++r) {
    const auto from = ids.begin() + r * length;
    const auto row = logits_of(sentences[static_cast<size_t>(r / width)], {from, from + length});
    out.insert(out.end(), row.begin(), row.end());
  }
  return Tensor::from(out, {rows, kVocab});
}

// Every sequence of at most max_length tokens, the best first.
std::vector<Hypothesis> all_sequences(int64_t sentence, const BeamOptions& o) {
  std::vector<Hypothesis> out;
  std::vector<int32_t> prefix = {kBegin};
  const std::function<void(double)> extend = [&](double log_p) {
    const std::vector<double> row = logits_of(sentence, prefix);
    double sum = 0;
    for (const double x : row) sum += std::exp(x);
    for (int32_t v = 0; v < kVocab; ++v) {
      const double p = log_p + row[static_cast<size_t>(v)] - std::log(sum);
      const size_t length = prefix.size();
      const double score = p / std::pow(static_cast<double>(length), o.length_penalty);
      if (v == kEnd) {
        out.push_back({{prefix.begin() + 1, prefix.end()}, score, true});
        continue;
      }
      prefix.push_back(v);
      if (static_cast<int64_t>(length) == o.max_length) {
        out.push_back({{prefix.begin() + 1, prefix.end()}, score, false});
      } else {
        extend(p);
      }
      prefix.pop_back();
    }
  };
  extend(0);
  std::sort(out.begin(), out.end(),
            [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  return out;
}

BeamOptions options(int64_t beam, int64_t max_length, double penalty = 1) {
  return {beam, max_length, kBegin, kEnd, penalty};
}

bool same(const Hypothesis& a, const Hypothesis& b) {
  return a.tokens == b.tokens && a.ended == b.ended &&
         std::abs(a.score - b.score) <= kRounding * std::abs(b.score);
}

}  // namespace

TEST_CASE("A beam that holds every sequence finds them all, in order") {
  for (const double penalty : {0.0, 0.6, 1.0, 2.0}) {
    const BeamOptions o = options(200, 4, penalty);
    const auto found = beam_search(2, o, next);
    for (int64_t s = 0; s < 2; ++s) {
      const std::vector<Hypothesis> all = all_sequences(s, o);
      REQUIRE(all.size() == 121);  // 1 + 3 + 9 + 27 that end, 81 cut
      REQUIRE(found[static_cast<size_t>(s)].size() == all.size());
      for (size_t i = 0; i < all.size(); ++i) CHECK(same(found[static_cast<size_t>(s)][i], all[i]));
    }
  }
}

TEST_CASE("The length penalty changes the winner") {
  int changed = 0, longer = 0;
  for (int64_t s = 0; s < 20; ++s) {
    const auto plain = all_sequences(s, options(1, 4, 0)),
               paid = all_sequences(s, options(1, 4, 1));
    changed += plain[0].tokens != paid[0].tokens;
    longer += paid[0].tokens.size() > plain[0].tokens.size();
    CHECK(paid[0].tokens.size() >= plain[0].tokens.size());
  }
  CHECK(changed > 0);
  CHECK(longer > 0);
}

TEST_CASE("A beam of one takes the likeliest token every time") {
  const BeamOptions o = options(1, 6);
  const auto found = beam_search(12, o, next);
  bool ended = false, cut = false;
  for (int64_t s = 0; s < 12; ++s) {
    std::vector<int32_t> prefix = {kBegin};
    bool end = false;
    while (static_cast<int64_t>(prefix.size()) <= o.max_length && !end) {
      const std::vector<double> row = logits_of(s, prefix);
      const auto v = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
      end = v == kEnd;
      if (!end) prefix.push_back(v);
    }
    const Hypothesis& h = found[static_cast<size_t>(s)][0];
    CHECK(h.tokens == std::vector<int32_t>(prefix.begin() + 1, prefix.end()));
    CHECK(h.ended == end);
    (end ? ended : cut) = true;
  }
  CHECK(ended);
  CHECK(cut);
}

TEST_CASE("A sentence's beam does not depend on its companions") {
  for (const int64_t beam : {1, 2, 3, 5}) {
    const auto together = beam_search(8, options(beam, 7), next);
    for (int64_t s = 0; s < 8; ++s) {
      const auto alone =
          beam_search(1, options(beam, 7),
                      [s](const Tensor& p, const std::vector<int64_t>&) { return next(p, {s}); });
      const auto& expected = together[static_cast<size_t>(s)];
      REQUIRE(alone[0].size() == expected.size());
      for (size_t i = 0; i < expected.size(); ++i) CHECK(same(alone[0][i], expected[i]));
    }
  }
}

TEST_CASE("A wider beam is seldom worse, and no hypothesis beats the best of all") {
  double narrow = 0, wide = 0;
  for (int64_t s = 0; s < 20; ++s) {
    const auto only = [s](const Tensor& p, const std::vector<int64_t>&) { return next(p, {s}); };
    const double one = beam_search(1, options(1, 5), only)[0][0].score;
    const double four = beam_search(1, options(4, 5), only)[0][0].score;
    const double best = all_sequences(s, options(1, 5))[0].score;
    CHECK(one <= best + kRounding);
    CHECK(four <= best + kRounding);
    narrow += one;
    wide += four;
  }
  CHECK(wide > narrow);
}

TEST_CASE("Beam search stops when all sentences are done, and refuses what is not a number") {
  int calls = 0;
  const auto ends_at_once = [&](const Tensor& p, const std::vector<int64_t>&) {
    ++calls;
    std::vector<double> row = {9, 0, 0, 0}, out;
    for (int64_t i = 0; i < p.size(0); ++i) out.insert(out.end(), row.begin(), row.end());
    return Tensor::from(out, {p.size(0), kVocab});
  };
  const auto found = beam_search(3, options(1, 50), ends_at_once);
  CHECK(calls == 1);
  CHECK(found[2][0].tokens.empty());
  CHECK(found[2][0].ended);
  const auto nan = [](const Tensor& p, const std::vector<int64_t>&) {
    return Tensor::full({p.size(0), kVocab}, std::nan(""), DType::f64);
  };
  CHECK_THROWS_AS(beam_search(1, options(2, 5), nan), RunError);
  CHECK_THROWS_AS(beam_search(1, options(0, 5), next), Error);
  CHECK_THROWS_AS(beam_search(1, options(2, 0), next), Error);
  CHECK(beam_search(0, options(2, 5), next).empty());
}
