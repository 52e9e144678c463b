// Corpus BLEU as sacreBLEU computes it by default: 13a tokenisation, case kept, n-grams to 4, one
// reference a sentence, brevity penalty, exponential smoothing of orders without a match
// (Post, 2018; mteval-v13a). UTF-8.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace cbwc {

constexpr size_t kBleuOrder = 4;

struct BleuScore {
  double score = 0;                             // 0 to 100
  std::array<double, kBleuOrder> precisions{};  // per cent, smoothed
  double brevity = 1;                           // the penalty's factor
  int64_t hypothesis_tokens = 0, reference_tokens = 0;
};

enum class BleuSmoothing { exponential, none };

class Bleu {
 public:
  void add(const std::string& hypothesis, const std::string& reference);
  int64_t sentences() const { return sentences_; }
  // 0 when no token agrees, or when no sentence has four tokens.
  BleuScore score(BleuSmoothing smoothing = BleuSmoothing::exponential) const;

 private:
  std::array<int64_t, kBleuOrder> matches_{}, totals_{};
  int64_t hypothesis_ = 0, reference_ = 0, sentences_ = 0;
};

// Error when the lists differ in length.
BleuScore corpus_bleu(const std::vector<std::string>& hypotheses,
                      const std::vector<std::string>& references);

// mteval-v13a's words: punctuation apart, full stops and commas within numbers left alone.
std::vector<std::string> tokenize_13a(const std::string& line);

}  // namespace cbwc
