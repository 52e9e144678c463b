// How well a decoder predicts a text.
#pragma once
#include <string>

#include "data/tokenizer.h"
#include "layers/model.h"

namespace cbwc {

struct TextScore {
  double loss = 0;      // mean over targets
  int64_t targets = 0;  // every token but the first, once
  int64_t tokens = 0, windows = 0;
};

// The text as one document, behind what the tokenizer puts in front of one. It is cut into windows
// of `window` tokens that do not overlap: the first of a window sees nothing before it. Error for
// fewer than two tokens.
TextScore score_text(Model& model, const Tokenizer& tokenizer, const std::string& text,
                     int64_t window, int64_t batch);

}  // namespace cbwc
