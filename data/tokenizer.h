// Text to token ids and back. Four kinds: raw bytes (ids 0..255, end of document 256), GPT-2's
// byte-level BPE (Radford et al., 2019) from its vocab.json and merges.txt, BERT's WordPiece from
// its vocab.txt, and SentencePiece models. Cheap to copy, safe to share between threads. Special
// tokens written out in a text are ordinary text, but for a tokenizer of a model folder
// (tokenizer_folder.h), which finds the tokens that the folder adds.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cbwc {

// Ids with a meaning of their own; -1: the tokenizer has none. A kind without them uses its end of
// document as begin, end and padding.
struct SpecialTokens {
  int32_t begin = -1, end = -1;  // [CLS], [SEP]; <s>, </s>
  int32_t pad = -1, mask = -1, unknown = -1;
  bool contains(int32_t id) const {
    return id >= 0 && (id == begin || id == end || id == pad || id == mask || id == unknown);
  }
};

// The ids that a model folder's post-processor puts around a text: [CLS] ... [SEP], OPT's </s>.
struct TextWrap {
  std::vector<int32_t> before = {}, after = {};
};

class Tokenizer {
 public:
  static Tokenizer bytes();
  static Tokenizer gpt2(const std::string& vocab_json_path, const std::string& merges_path);
  // One token a line, the line number its id; [UNK], [CLS], [SEP], [PAD] and [MASK] among them.
  // lower_case also strips accents, as BERT's uncased models do.
  static Tokenizer wordpiece(const std::string& vocab_txt_path, bool lower_case);
  static Tokenizer wordpiece(std::vector<std::string> vocab, bool lower_case);
  static Tokenizer sentencepiece(const std::string& model_path);  // its bytes go into to_json()
  static Tokenizer from_json(const std::string& json);            // the inverse of to_json

  const std::string& kind() const;  // "bytes", "gpt2_bpe", "wordpiece" or "sentencepiece"
  int64_t vocab_size() const;
  int32_t end_of_document() const;  // also the end of an answer, of a translation
  const SpecialTokens& specials() const;
  const std::string& piece(int32_t id) const;  // its text; empty for bytes' end of document
  std::vector<int32_t> encode(std::string_view text) const;  // without the wrap
  const TextWrap& wrap() const;                              // empty for one of no model folder
  // The text of the ids; begin, end and padding give nothing; Error for an unknown id. bytes and
  // gpt2_bpe give back every byte (a cut sequence may end inside a UTF-8 character); wordpiece puts
  // a space between words, so its text is not always the original; sentencepiece's is normalised.
  std::string decode(const std::vector<int32_t>& ids) const;
  // What the ids from `first` on add to the text of those before: with the space at its front that
  // decode() of that part alone would not know of.
  std::string continuation(const std::vector<int32_t>& ids, size_t first) const;
  std::string to_json() const;  // everything that from_json needs: no file is read again

  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

// GPT-2's pre-tokenizer: cuts text into pieces that BPE never merges across. The pieces joined are
// the text, byte for byte. Public for the tests.
std::vector<std::string_view> gpt2_pieces(std::string_view text);
// BLOOM's: a word with the space before it, and what lies between: blanks, brackets and . , ! ? |
// and their like in other scripts.
std::vector<std::string_view> bloom_pieces(std::string_view text);
// BERT's basic tokenizer: control characters go, CJK characters and punctuation stand alone, the
// rest is cut at white space; lower-case and without accents where asked for.
std::vector<std::string> bert_words(std::string_view text, bool lower_case);
// The same as the `tokenizers` library does it, which transformers takes by default: nothing is
// composed, unassigned characters stay, accents go before the case does. Its tables are Unicode
// 8's; punctuation and accents that are newer differ.
struct BertNormalizer {
  bool lower_case = true, strip_accents = true, split_cjk = true;
};
std::vector<std::string> bert_words(std::string_view text, const BertNormalizer& normalizer);

}  // namespace cbwc
