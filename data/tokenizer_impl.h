// The tokenizers behind Tokenizer. Private to data/*.cpp.
#pragma once
#include <memory>
#include <optional>
#include <set>

#include "data/json.h"
#include "data/tokenizer.h"

namespace cbwc {

// A token that is looked for in the text before anything else (the longest of the leftmost);
// `normalized` ones after the others. lstrip, rstrip: it takes the blanks beside it along.
struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool special = false, normalized = false, lstrip = false, rstrip = false;
};

// What a model folder says beside the vocabulary.
struct FolderRules {
  std::vector<AddedToken> added = {};
  SpecialTokens specials = {};
  TextWrap wrap = {};
};

struct Tokenizer::Impl {
  virtual ~Impl() = default;
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;  // of no added token
  virtual std::string decode(const std::vector<int32_t>& ids) const;     // the pieces joined
  virtual nlohmann::json json() const = 0;                               // without the rules
  void set_end(int32_t id);  // of a kind whose only special is its end of document
  void set_rules(FolderRules given);
  std::string kind;
  std::vector<std::string> pieces;  // the bytes of each id; empty for end of document
  int32_t end_of_document = 0;
  SpecialTokens specials;
  std::optional<FolderRules> rules;
};

// Parts of the text in order: an added token's id, or -1 and the text between.
struct TextPart {
  int32_t id = -1;
  std::string_view text = {};
};
std::vector<TextPart> split_added(std::string_view text, const std::vector<AddedToken>& added);

struct BpeOptions {
  std::string split = "gpt2";         // or "bloom"
  std::string end = "<|endoftext|>";  // end of document; "": a folder's rules will say it
  std::set<std::string> plain = {};   // more tokens that no bytes make
};

std::shared_ptr<Tokenizer::Impl> make_bytes();
// vocab_json: {"token": id, ...}; merges: "left right" in rank order. `name` goes into errors.
std::shared_ptr<Tokenizer::Impl> make_gpt2(const std::string& vocab_json,
                                           std::vector<std::string> merges, const std::string& name,
                                           const BpeOptions& options = {});
std::shared_ptr<Tokenizer::Impl> make_wordpiece(std::vector<std::string> vocab, bool lower_case,
                                                const std::string& name,
                                                std::optional<BertNormalizer> normalizer = {});
std::shared_ptr<Tokenizer::Impl> make_sentencepiece(std::string model, const std::string& name);
// Any bytes as pairs of lower-case digits, for JSON, and back.
std::string to_hex(const std::string& bytes);
std::string from_hex(const std::string& digits);  // Error where they are not such pairs

std::vector<std::string> lines_of(const std::string& path);     // without CR and LF
std::vector<std::string> merge_lines(const std::string& path);  // of a merges.txt

}  // namespace cbwc
