#include "experiments/bleu.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "core/check.h"

namespace cbwc {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_point(char c) { return c == '.' || c == ','; }

// Bytes of the white space that starts at `at`, 0 if there is none: Unicode's, and the four
// separators 1C to 1F, which sacreBLEU's language splits at too.
size_t space_at(const std::string& s, size_t at) {
  const unsigned char c = static_cast<unsigned char>(s[at]);
  if (c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F)) return 1;
  static constexpr std::string_view kWide[] = {"\u0085", "\u00A0", "\u1680", "\u2000", "\u2001",
                                               "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
                                               "\u2007", "\u2008", "\u2009", "\u200A", "\u2028",
                                               "\u2029", "\u202F", "\u205F", "\u3000"};
  for (const std::string_view wide : kWide)
    if (s.compare(at, wide.size(), wide) == 0) return wide.size();
  return 0;
}

std::vector<std::string> split(const std::string& s) {
  std::vector<std::string> words;
  bool open = false;
  for (size_t at = 0; at < s.size();) {
    if (const size_t space = space_at(s, at); space > 0) {
      open = false;
      at += space;
      continue;
    }
    if (!open) words.emplace_back();
    open = true;
    words.back() += s[at++];
  }
  return words;
}

std::string without_trailing_space(const std::string& s) {
  size_t end = 0;  // after the last byte that is not white space
  for (size_t at = 0; at < s.size();) {
    const size_t space = space_at(s, at);
    at += std::max<size_t>(space, 1);
    if (space == 0) end = at;
  }
  return s.substr(0, end);
}

bool stands_alone(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

// Each rule takes two neighbours at a time and goes on behind them. Bytes do for characters: what
// the rules look for is ASCII.
template <class Match>
std::string apply_pairs(const std::string& s, const Match& match, const char* before,
                        const char* between, const char* after) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (i + 1 < s.size() && match(s[i], s[i + 1])) {
      out += before;
      out += s[i];
      out += between;
      out += s[++i];
      out += after;
    } else {
      out += s[i];
    }
  }
  return out;
}

using Counts = std::map<std::vector<std::string_view>, int64_t>;

Counts ngrams(const std::vector<std::string>& words, size_t order) {
  Counts counts;
  for (size_t i = 0; i + order <= words.size(); ++i)
    ++counts[std::vector<std::string_view>(words.begin() + static_cast<std::ptrdiff_t>(i),
                                           words.begin() + static_cast<std::ptrdiff_t>(i + order))];
  return counts;
}

}  // namespace

std::vector<std::string> tokenize_13a(const std::string& line) {
  std::string s = without_trailing_space(line);
  replace_all(s, "<skipped>", "");
  replace_all(s, "-\n", "");
  replace_all(s, "\n", " ");
  replace_all(s, "&quot;", "\"");
  replace_all(s, "&amp;", "&");
  replace_all(s, "&lt;", "<");
  replace_all(s, "&gt;", ">");
  std::string spaced = " ";
  for (const char c : s) {
    if (stands_alone(c))
      spaced += {' ', c, ' '};
    else
      spaced += c;
  }
  spaced += ' ';
  const auto point_after_other = [](char a, char b) { return !is_digit(a) && is_point(b); };
  const auto point_before_other = [](char a, char b) { return is_point(a) && !is_digit(b); };
  const auto dash_after_digit = [](char a, char b) { return is_digit(a) && b == '-'; };
  spaced = apply_pairs(spaced, point_after_other, "", " ", " ");
  spaced = apply_pairs(spaced, point_before_other, " ", " ", "");
  return split(apply_pairs(spaced, dash_after_digit, "", " ", " "));
}

void Bleu::add(const std::string& hypothesis, const std::string& reference) {
  const std::vector<std::string> h = tokenize_13a(hypothesis), r = tokenize_13a(reference);
  ++sentences_;
  hypothesis_ += static_cast<int64_t>(h.size());
  reference_ += static_cast<int64_t>(r.size());
  for (size_t order = 1; order <= kBleuOrder; ++order) {
    const Counts wanted = ngrams(r, order);
    for (const auto& [gram, count] : ngrams(h, order)) {
      totals_[order - 1] += count;
      if (const auto it = wanted.find(gram); it != wanted.end())
        matches_[order - 1] += std::min(count, it->second);
    }
  }
}

BleuScore Bleu::score(BleuSmoothing smoothing) const {
  BleuScore out;
  out.hypothesis_tokens = hypothesis_;
  out.reference_tokens = reference_;
  if (hypothesis_ < reference_)
    out.brevity =
        hypothesis_ == 0
            ? 0
            : std::exp(1 - static_cast<double>(reference_) / static_cast<double>(hypothesis_));
  if (matches_ == decltype(matches_){}) return out;
  double halves = 1, logs = 0;
  for (size_t n = 0; n < kBleuOrder; ++n) {
    const double total = static_cast<double>(totals_[n]);
    if (totals_[n] == 0) return out;
    if (matches_[n] > 0) {
      out.precisions[n] = 100 * static_cast<double>(matches_[n]) / total;
    } else if (smoothing == BleuSmoothing::exponential) {
      halves *= 2;  // 1/2, 1/4, ... of a match
      out.precisions[n] = 100 / (halves * total);
    } else {
      return out;
    }
    logs += std::log(out.precisions[n]);
  }
  out.score = out.brevity * std::exp(logs / static_cast<double>(kBleuOrder));
  return out;
}

BleuScore corpus_bleu(const std::vector<std::string>& hypotheses,
                      const std::vector<std::string>& references) {
  CBWC_CHECK(hypotheses.size() == references.size(), "bleu: ", hypotheses.size(),
             " hypotheses against ", references.size(), " references");
  Bleu bleu;
  for (size_t i = 0; i < hypotheses.size(); ++i) bleu.add(hypotheses[i], references[i]);
  return bleu.score();
}

}  // namespace cbwc
