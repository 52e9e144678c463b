// The tokenizer of a Hugging Face model folder: byte-level BPE (GPT-2, OPT, Phi, BLOOM) or BERT's
// WordPiece, from tokenizer.json, else vocab.json with merges.txt, else vocab.txt; with
// tokenizer_config.json, special_tokens_map.json and added_tokens.json where they are. encode() and
// wrap() give what transformers' fast tokenizers give for a text, the added tokens included.
#pragma once
#include <string>

#include "data/tokenizer.h"

namespace cbwc {

bool has_tokenizer(const std::string& folder);  // any of these files
// Error in one line naming the file and what is not known there: another model (Unigram),
// normalizer or pre-tokenizer.
Tokenizer tokenizer_from_folder(const std::string& folder);

}  // namespace cbwc
