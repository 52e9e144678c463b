// The tokenizers behind Tokenizer. Private to data/*.cpp.
#pragma once
#include <memory>

#include "data/tokenizer.h"

namespace cbwc {

struct Tokenizer::Impl {
  virtual ~Impl() = default;
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  virtual std::string decode(const std::vector<int32_t>& ids) const;  // the pieces joined
  virtual std::string to_json() const = 0;
  void set_end(int32_t id);  // of a kind whose only special is its end of document
  std::string kind;
  std::vector<std::string> pieces;  // the bytes of each id; empty for end of document
  int32_t end_of_document = 0;
  SpecialTokens specials;
};

std::shared_ptr<const Tokenizer::Impl> make_bytes();
// vocab_json: {"token": id, ...}; merges: "left right" in rank order. `name` goes into errors.
std::shared_ptr<const Tokenizer::Impl> make_gpt2(const std::string& vocab_json,
                                                 std::vector<std::string> merges,
                                                 const std::string& name);
std::shared_ptr<const Tokenizer::Impl> make_wordpiece(std::vector<std::string> vocab,
                                                      bool lower_case, const std::string& name);
std::shared_ptr<const Tokenizer::Impl> make_sentencepiece(std::string model,
                                                          const std::string& name);
// Any bytes as pairs of lower-case digits, for JSON, and back.
std::string to_hex(const std::string& bytes);
std::string from_hex(const std::string& digits);  // Error where they are not such pairs

}  // namespace cbwc
