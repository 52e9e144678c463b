// Sentence vectors of a BERT: each text's hidden states pooled over its tokens, the special ones
// included, as sentence-transformers does it.
#pragma once
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "experiments/run_text.h"
#include "layers/bert.h"

namespace cbwc {

// The ids as the model reads them: wrapped, cut to `longest` (at least the wrap fits).
struct EncodedText {
  std::vector<int32_t> ids;
  bool cut = false;
};
EncodedText encode_for_bert(const Tokenizer& tokenizer, const std::string& text, int64_t longest);

struct SentenceVectors {
  Tensor vectors;               // (texts, dim), in the order of the texts
  std::vector<int64_t> tokens;  // of each text, as read
  int64_t longest = 0;          // tokens that a text may have
  int64_t cut = 0;              // texts that had more
};

// Texts of like length share a batch, padded to its longest: the same vectors as one by one, up to
// rounding. Error for a pooling that is not known.
SentenceVectors embed_texts(Bert& model, const Tokenizer& tokenizer,
                            const std::vector<std::string>& texts, const SentenceOptions& options,
                            int64_t batch);

}  // namespace cbwc
