// BLEU against sacreBLEU 2.6.0 (tests/fixtures/make_bleu.py).
#include "experiments/bleu.h"

#include <fmt/format.h>

#include <cmath>

#include "core/check.h"
#include "experiments/json_output.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

constexpr double kRounding = 1e-9;  // the same formula in another order of operations

nlohmann::json cases() {
  return read_json(std::string(CBWC_SOURCE_DIR) + "/tests/fixtures/bleu.json").at("cases");
}

}  // namespace

TEST_CASE("BLEU and every number in it agree with sacreBLEU") {
  int seen = 0, positive = 0;
  for (const nlohmann::json& c : cases()) {
    INFO(c.at("name").get<std::string>());
    const std::vector<std::string> hypotheses = c.at("hypotheses"), references = c.at("references");
    const BleuScore score = corpus_bleu(hypotheses, references);
    CHECK(std::abs(score.score - c.at("score").get<double>()) < kRounding);
    CHECK(std::abs(score.brevity - c.at("bp").get<double>()) < kRounding);
    CHECK(score.hypothesis_tokens == c.at("sys_len").get<int64_t>());
    CHECK(score.reference_tokens == c.at("ref_len").get<int64_t>());
    for (size_t n = 0; n < kBleuOrder; ++n)
      CHECK(std::abs(score.precisions[n] - c.at("precisions")[n].get<double>()) < kRounding);
    Bleu bleu;
    for (size_t i = 0; i < hypotheses.size(); ++i) bleu.add(hypotheses[i], references[i]);
    CHECK(std::abs(bleu.score(BleuSmoothing::none).score - c.at("unsmoothed").get<double>()) <
          kRounding);
    ++seen;
    positive += score.score > 0;
  }
  CHECK(seen > 25);
  CHECK(positive > 15);
}

TEST_CASE("13a tokens agree with sacreBLEU's") {
  for (const nlohmann::json& c : cases())
    for (size_t i = 0; i < c.at("hypotheses").size(); ++i) {
      const std::string line = c.at("hypotheses")[i];
      INFO(fmt::format("{}, sentence {}: {}", c.at("name").get<std::string>(), i, line));
      CHECK(tokenize_13a(line) == c.at("tokens")[i].get<std::vector<std::string>>());
    }
}

TEST_CASE("BLEU: what differs is seen, lists of two lengths are refused") {
  const std::vector<std::string> a = {"one two three four five six"},
                                 b = {"one two three four six five"};
  CHECK(corpus_bleu(a, a).score == Approx(100));
  CHECK(corpus_bleu(a, b).score < 90);
  CHECK(corpus_bleu({}, {}).score == 0);
  CHECK_THROWS_AS(corpus_bleu(a, {}), Error);
}
