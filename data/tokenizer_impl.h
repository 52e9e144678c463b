// The two tokenizers behind Tokenizer. Private to data/*.cpp.
#pragma once
#include <memory>

#include "data/tokenizer.h"

namespace cbwc {

struct Tokenizer::Impl {
  virtual ~Impl() = default;
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  virtual std::string to_json() const = 0;
  std::string kind;
  std::vector<std::string> pieces;  // the bytes of each id; empty for end of document
  int32_t end_of_document = 0;
};

std::shared_ptr<const Tokenizer::Impl> make_bytes();
// vocab_json: {"token": id, ...}; merges: "left right" in rank order. `name` goes into errors.
std::shared_ptr<const Tokenizer::Impl> make_gpt2(const std::string& vocab_json,
                                                 std::vector<std::string> merges,
                                                 const std::string& name);

}  // namespace cbwc
