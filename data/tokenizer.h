// Text to token ids and back. Two kinds: raw bytes (ids 0..255, end of document 256), and GPT-2's
// byte-level BPE (Radford et al., 2019) read from its vocab.json and merges.txt. Cheap to copy,
// safe to share between threads. Special tokens written out in a text are ordinary text.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cbwc {

class Tokenizer {
 public:
  static Tokenizer bytes();
  static Tokenizer gpt2(const std::string& vocab_json_path, const std::string& merges_path);
  static Tokenizer from_json(const std::string& json);  // the inverse of to_json

  const std::string& kind() const;  // "bytes" or "gpt2_bpe"
  int64_t vocab_size() const;
  int32_t end_of_document() const;
  std::vector<int32_t> encode(std::string_view text) const;  // without end of document
  // The bytes of the ids joined; end of document gives nothing; Error for an unknown id. A cut
  // sequence may end inside a UTF-8 character.
  std::string decode(const std::vector<int32_t>& ids) const;
  std::string to_json() const;  // everything that from_json needs: no file is read again

  struct Impl;

 private:
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// GPT-2's pre-tokenizer: cuts text into pieces that BPE never merges across. The pieces joined are
// the text, byte for byte. Public for the tests.
std::vector<std::string_view> gpt2_pieces(std::string_view text);

}  // namespace cbwc
