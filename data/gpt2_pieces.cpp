// The pre-tokenizers of byte-level BPE by hand. GPT-2's:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
#include <utf8proc.h>

#include <algorithm>

#include "data/tokenizer.h"

namespace cbwc {
namespace {

enum class Kind { end, letter, number, space, other };

struct Character {
  Kind kind;
  size_t bytes;
};

// Unicode's White_Space property: what \s means there.
bool is_space(int32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// A byte that is not UTF-8 counts as one character of no class.
Character character_at(std::string_view text, size_t at) {
  if (at >= text.size()) return {Kind::end, 0};
  int32_t code = 0;
  const auto* p = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
  const auto length = utf8proc_iterate(p, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
  if (length <= 0) return {Kind::other, 1};
  const size_t bytes = static_cast<size_t>(length);
  if (is_space(code)) return {Kind::space, bytes};
  const utf8proc_category_t category = utf8proc_category(code);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
    return {Kind::letter, bytes};
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
    return {Kind::number, bytes};
  return {Kind::other, bytes};
}

size_t contraction(std::string_view rest) {
  for (const std::string_view suffix : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (rest.substr(0, suffix.size()) == suffix) return suffix.size();
  return 0;
}

// The end of the run of `kind` that starts at `at`.
size_t run_end(std::string_view text, size_t at, Kind kind) {
  for (;;) {
    const Character c = character_at(text, at);
    if (c.kind != kind) return at;
    at += c.bytes;
  }
}

// \s+(?!\S)|\s+ : a run before a word leaves its last character to the next piece, unless it is the
// only one.
size_t space_end(std::string_view text, size_t begin) {
  size_t at = begin, last = begin;
  for (Character c = character_at(text, at); c.kind == Kind::space; c = character_at(text, at)) {
    last = at;
    at += c.bytes;
  }
  return at == text.size() || last == begin ? at : last;
}

size_t piece_end(std::string_view text, size_t begin) {
  if (const size_t length = contraction(text.substr(begin))) return begin + length;
  const size_t word = text[begin] == ' ' ? begin + 1 : begin;
  const Kind kind = character_at(text, word).kind;
  if (kind != Kind::space && kind != Kind::end) return run_end(text, word, kind);
  return space_end(text, begin);
}

// Not in BLOOM's words: a class inside the class, so that its brackets and bar are meant as well.
bool separates_words(std::string_view character) {
  constexpr std::string_view kSeparators[] = {"(",      ")",      "|",      ".",      ",",
                                              "!",      "?",      "\u2026", "\u3002", "\uFF0C",
                                              "\u3001", "\u0964", "\u06D4", "\u060C"};
  return std::find(std::begin(kSeparators), std::end(kSeparators), character) !=
         std::end(kSeparators);
}

// The end of the characters from `at` that are, or are not, part of a word.
size_t bloom_run(std::string_view text, size_t at, bool word) {
  for (;;) {
    const Character c = character_at(text, at);
    if (c.kind == Kind::end) return at;
    const bool part = c.kind != Kind::space && !separates_words(text.substr(at, c.bytes));
    if (part != word) return at;
    at += c.bytes;
  }
}

}  // namespace

//   " ?[^(\s|[.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C])]+", and what is between the matches
std::vector<std::string_view> bloom_pieces(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (size_t begin = 0; begin < text.size();) {
    size_t gap = bloom_run(text, begin, false);  // a blank before a word is the word's
    if (gap > begin && gap < text.size() && text[gap - 1] == ' ') --gap;
    if (gap > begin) pieces.push_back(text.substr(begin, gap - begin));
    if (gap == text.size()) break;
    const size_t end = bloom_run(text, text[gap] == ' ' ? gap + 1 : gap, true);
    pieces.push_back(text.substr(gap, end - gap));
    begin = end;
  }
  return pieces;
}

std::vector<std::string_view> gpt2_pieces(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = piece_end(text, begin);
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

}  // namespace cbwc
