// Text from a language model, token by token with a KV cache.
#pragma once
#include <cstdint>
#include <vector>

#include "core/rng.h"
#include "layers/model.h"

namespace cbwc {

struct GenerationOptions {
  int64_t tokens = 100;    // at most
  int64_t top_k = 0;       // draws from the k likeliest only; 0: from all
  double temperature = 1;  // 0 takes the likeliest
  uint64_t seed = 1;       // the same seed gives the same text
  int64_t context = 0;     // tokens that the model sees at once
  int64_t vocab = 0;       // only ids below it are drawn; 0: all that there are
  int32_t end = -1;        // ends the text, and stands in it; -1: none does
};

// What follows `prompt`, which must not be empty. A text longer than `context` is read through a
// window that slides by one token each time: every position is then another one, so that the cache
// is built anew, a whole pass for each token. RunError for logits that are not finite.
std::vector<int32_t> generate(Model& model, const std::vector<int32_t>& prompt,
                              const GenerationOptions& options);

// One id by its logit; ties in the choice of the k likeliest go to the lower id.
int32_t draw_token(const std::vector<double>& logits, const GenerationOptions& options, Rng& rng);

}  // namespace cbwc
