#include "layers/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"

namespace cbwc {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Live {
  std::vector<int32_t> tokens;  // begin first
  double log_p = 0;             // kNever: fills up the batch's width
};

struct Search {
  int64_t number = 0;  // of the sentence
  std::vector<Live> live;
  std::vector<Hypothesis> finished;  // best first, at most `beam`
};

struct Candidate {
  double log_p;
  size_t from;  // of the live ones
  int32_t token;
  bool operator<(const Candidate& b) const {  // better
    if (log_p != b.log_p) return log_p > b.log_p;
    return from != b.from ? from < b.from : token < b.token;
  }
};

double score_of(double log_p, size_t length, const BeamOptions& o) {
  return log_p / std::pow(static_cast<double>(length), o.length_penalty);
}

void finish(Search& s, const Live& live, double log_p, bool ended, const BeamOptions& o) {
  const size_t length = live.tokens.size() - (ended ? 0 : 1);  // without begin, with end
  Hypothesis h{{live.tokens.begin() + 1, live.tokens.end()}, score_of(log_p, length, o), ended};
  const auto place =
      std::upper_bound(s.finished.begin(), s.finished.end(), h,
                       [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  s.finished.insert(place, std::move(h));
  if (static_cast<int64_t>(s.finished.size()) > o.beam) s.finished.pop_back();
}

// The 2 beam best continuations: so many are needed for `beam` that do not end.
std::vector<Candidate> candidates(const Search& s, const double* logits, int64_t vocab,
                                  int64_t beam) {
  std::vector<Candidate> out;
  for (size_t i = 0; i < s.live.size(); ++i) {
    if (s.live[i].log_p == kNever) continue;
    const double* row = logits + static_cast<int64_t>(i) * vocab;
    const double top = *std::max_element(row, row + vocab);
    double sum = 0;
    for (int64_t v = 0; v < vocab; ++v) sum += std::exp(row[v] - top);
    if (std::isnan(sum)) throw RunError("beam search: the model's logits are not finite");
    const double base = s.live[i].log_p - top - std::log(sum);
    for (int64_t v = 0; v < vocab; ++v) {
      if (row[v] != kNever) out.push_back({base + row[v], i, static_cast<int32_t>(v)});
    }
  }
  const size_t keep = std::min(out.size(), static_cast<size_t>(2 * beam));
  std::partial_sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(keep), out.end());
  out.resize(keep);
  return out;
}

void advance(Search& s, const double* logits, int64_t vocab, const BeamOptions& o) {
  std::vector<Live> next;
  int64_t rank = 0;
  for (const Candidate& c : candidates(s, logits, vocab, o.beam)) {
    const Live& from = s.live[c.from];
    if (c.token == o.end) {
      if (rank < o.beam) finish(s, from, c.log_p, true, o);
    } else if (static_cast<int64_t>(next.size()) < o.beam) {
      next.push_back({from.tokens, c.log_p});
      next.back().tokens.push_back(c.token);
    }
    ++rank;
  }
  s.live = std::move(next);
}

bool is_done(const Search& s, const BeamOptions& o) {
  if (s.live.empty()) return true;
  if (static_cast<int64_t>(s.finished.size()) < o.beam) return false;
  const double best = score_of(s.live[0].log_p, s.live[0].tokens.size() - 1, o);
  return best <= s.finished.back().score;
}

// (n * width, S), the narrower searches filled up.
Tensor prefixes_of(std::vector<Search>& active) {
  size_t width = 0;
  for (const Search& s : active) width = std::max(width, s.live.size());
  std::vector<int32_t> ids;
  for (Search& s : active) {
    s.live.resize(width, {s.live[0].tokens, kNever});
    for (const Live& l : s.live) ids.insert(ids.end(), l.tokens.begin(), l.tokens.end());
  }
  const int64_t rows = static_cast<int64_t>(active.size() * width);
  return Tensor::from(ids, {rows, static_cast<int64_t>(ids.size()) / rows});
}

// One token more for every search; those that are done leave.
void step(std::vector<Search>& active, std::vector<std::vector<Hypothesis>>& results,
          const BeamOptions& o, const NextLogits& next) {
  const Tensor prefixes = prefixes_of(active);
  std::vector<int64_t> numbers;
  for (const Search& s : active) numbers.push_back(s.number);
  const Tensor logits = next(prefixes, numbers).to(DType::f64).contiguous();
  CBWC_CHECK(logits.rank() == 2 && logits.size(0) == prefixes.size(0),
             "beam search: logits have shape ", to_string(logits.shape()), " for ",
             prefixes.size(0), " prefixes");
  const int64_t width = prefixes.size(0) / static_cast<int64_t>(active.size());
  const int64_t vocab = logits.size(1);
  const bool last = prefixes.size(1) == o.max_length;
  std::vector<Search> going_on;
  for (size_t i = 0; i < active.size(); ++i) {
    Search& s = active[i];
    advance(s, logits.data<double>() + static_cast<int64_t>(i) * width * vocab, vocab, o);
    if (last) {
      for (const Live& l : s.live) finish(s, l, l.log_p, false, o);
    }
    if (last || is_done(s, o)) {
      results[static_cast<size_t>(s.number)] = std::move(s.finished);
    } else {
      going_on.push_back(std::move(s));
    }
  }
  active = std::move(going_on);
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(int64_t sentences, const BeamOptions& options,
                                                 const NextLogits& next) {
  CBWC_CHECK(options.beam > 0 && options.max_length > 0,
             "beam search: beam and max_length must be positive, got ", options.beam, " and ",
             options.max_length);
  std::vector<std::vector<Hypothesis>> results(static_cast<size_t>(sentences));
  std::vector<Search> active;
  for (int64_t i = 0; i < sentences; ++i) active.push_back({i, {{{options.begin}, 0}}, {}});
  while (!active.empty()) step(active, results, options, next);
  return results;
}

}  // namespace cbwc
