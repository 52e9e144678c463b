// Which tokenizer a data set gets: one read from files, or one made from its training texts.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizer.h"

namespace cbwc {

struct TokenizerOptions {
  std::string kind = "bytes";  // or "bpe" (needs both files), "wordpiece", "sentencepiece"
  std::string vocab_json = {}, merges_txt = {};  // bpe: GPT-2's files
  std::string vocab_txt = {};          // wordpiece: BERT's vocab.txt; empty: made from the texts
  bool lower_case = true;              // wordpiece
  std::string model = {};              // sentencepiece: a .model file; empty: made from the texts
  std::string model_type = "unigram";  // sentencepiece: or "bpe"
  int64_t vocab_size = 8000;           // of one that is made; fewer where the texts give no more
};

bool needs_training(const TokenizerOptions& options);
// WordPiece is made by train_wordpiece(), SentencePiece by the program spm_train (Debian's package
// sentencepiece): the same model for the same texts in the same order.
Tokenizer make_tokenizer(const TokenizerOptions& options,
                         const std::vector<std::string>& texts = {});

}  // namespace cbwc
