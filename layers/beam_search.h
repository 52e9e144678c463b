// Beam search over a next-token model, for several sentences at once. The result for a sentence
// does not depend on its companions (up to the model's rounding). Every step the `beam` best
// continuations go on; one that ends with the end token among them is finished, with score
// log p / length^length_penalty (its tokens with the end token counted). A sentence is done when
// `beam` are finished and no unfinished one scores better now; at max_length what is unfinished is
// finished as it is. beam 1 is greedy search. Ties go to the lower token.
#pragma once
#include <functional>
#include <vector>

#include "core/tensor.h"

namespace cbwc {

struct BeamOptions {
  int64_t beam = 4;
  int64_t max_length = 0;      // generated tokens, the end token counted
  int32_t begin = 0, end = 0;  // tokens
  double length_penalty = 1;   // 0: the plain log-probability
};

struct Hypothesis {
  std::vector<int32_t> tokens;  // without begin and end
  double score = 0;
  bool ended = false;  // with the end token; else cut at max_length
};

// prefixes (n * width, S) int32, begin token first: `width` rows for each of the n `sentences`
// (numbers, rising), beside each other. Returns (n * width, V): the next token's logits.
using NextLogits =
    std::function<Tensor(const Tensor& prefixes, const std::vector<int64_t>& sentences)>;

// Of every sentence up to `beam` hypotheses, the best first. RunError for logits that are NaN.
std::vector<std::vector<Hypothesis>> beam_search(int64_t sentences, const BeamOptions& options,
                                                 const NextLogits& next);

}  // namespace cbwc
