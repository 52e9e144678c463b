// BERT's basic tokenizer: of google-research/bert (tokenization.py, with the NFC step of
// transformers), and as the `tokenizers` library has it.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/check.h"
#include "data/tokenizer.h"

namespace cbwc {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Range {
  char32_t first, last;
};
// The blocks of Chinese characters, also used in Japanese and Korean; not Hangul, not kana.
constexpr std::array<Range, 8> kCjk = {{{0x4E00, 0x9FFF},
                                        {0x3400, 0x4DBF},
                                        {0x20000, 0x2A6DF},
                                        {0x2A700, 0x2B73F},
                                        {0x2B740, 0x2B81F},
                                        {0x2B820, 0x2CEAF},
                                        {0xF900, 0xFAFF},
                                        {0x2F800, 0x2FA1F}}};

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_cjk(char32_t c) {
  return std::any_of(kCjk.begin(), kCjk.end(),
                     [&](const Range& r) { return c >= r.first && c <= r.last; });
}

bool is_white(char32_t c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || category(c) == UTF8PROC_CATEGORY_ZS;
}

// Cc, Cf, Cs, Co and Cn: unassigned code points too.
bool is_control(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_CN ||
         (kind >= UTF8PROC_CATEGORY_CC && kind <= UTF8PROC_CATEGORY_CO);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126);
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

// A byte that is not UTF-8 becomes U+FFFD, which the cleaning drops.
std::u32string code_points(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = 0;
    const auto length =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                         static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    out.push_back(length > 0 ? static_cast<char32_t>(code) : kReplacement);
    at += length > 0 ? static_cast<size_t>(length) : 1;
  }
  return out;
}

void append_utf8(std::string& out, char32_t c) {
  utf8proc_uint8_t buffer[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(length));
}

std::string utf8(const std::u32string& text) {
  std::string out;
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

bool is_ascii(const std::u32string& text) {
  return std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x80; });
}

std::u32string normal_form(const std::u32string& text, int form) {
  if (is_ascii(text)) return text;
  const std::string bytes = utf8(text);
  utf8proc_uint8_t* mapped = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()),
                                   static_cast<utf8proc_ssize_t>(bytes.size()), &mapped,
                                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form));
  CBWC_CHECK(length >= 0, "wordpiece: a text cannot be normalised: ", utf8proc_errmsg(length));
  const std::u32string out =
      code_points({reinterpret_cast<const char*>(mapped), static_cast<size_t>(length)});
  std::free(mapped);
  return out;
}

// Character by character, as transformers does: a capital sigma is never a final one.
std::u32string lower_without_accents(const std::u32string& word) {
  std::u32string lower;
  for (const char32_t c : word)
    lower += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  std::u32string out = normal_form(lower, UTF8PROC_DECOMPOSE);
  std::erase_if(out, [](char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; });
  return out;
}

void split_punctuation(const std::u32string& word, std::vector<std::string>& out) {
  bool fresh = true;
  for (const char32_t c : word) {
    const bool alone = is_punctuation(c);
    if (fresh || alone) out.emplace_back();
    append_utf8(out.back(), c);
    fresh = alone;
  }
}

// Character by character; U+0130 alone becomes two.
std::u32string lower(const std::u32string& text) {
  std::u32string out;
  for (const char32_t c : text) {
    if (c == 0x130)
      out += U"i\u0307";
    else
      out += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  }
  return out;
}

// The White_Space property.
bool is_blank(char32_t c) {
  return is_white(c) || (c >= 9 && c <= 13) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

// The library's table has 2B920 where the block begins at 2B820.
bool is_cjk_there(char32_t c) { return is_cjk(c) && (c < 0x2B820 || c > 0x2B91F); }

std::u32string cleaned(std::string_view text, bool split_cjk) {
  std::u32string out;
  for (const char32_t c : code_points(text)) {
    const bool control = is_control(c) && !is_white(c) && category(c) != UTF8PROC_CATEGORY_CN;
    if (c == 0 || c == kReplacement || control) continue;
    if (is_blank(c))
      out += U' ';
    else if (split_cjk && is_cjk_there(c))
      out += {U' ', c, U' '};
    else
      out += c;
  }
  return out;
}

}  // namespace

std::vector<std::string> bert_words(std::string_view text, const BertNormalizer& normalizer) {
  std::u32string clean = cleaned(text, normalizer.split_cjk);
  if (normalizer.strip_accents) {
    clean = normal_form(clean, UTF8PROC_DECOMPOSE);
    std::erase_if(clean, [](char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; });
  }
  if (normalizer.lower_case) clean = lower(clean);
  std::vector<std::string> words;
  for (size_t begin = 0; begin < clean.size();) {
    size_t end = begin;
    while (end < clean.size() && !is_blank(clean[end])) ++end;
    if (end > begin) split_punctuation(clean.substr(begin, end - begin), words);
    begin = end + 1;
  }
  return words;
}

std::vector<std::string> bert_words(std::string_view text, bool lower_case) {
  std::u32string clean;
  for (const char32_t c : code_points(text)) {
    if (is_white(c))
      clean += U' ';
    else if (is_cjk(c))
      clean += {U' ', c, U' '};
    else if (c != 0 && c != kReplacement && !is_control(c))
      clean += c;
  }
  clean = normal_form(clean, UTF8PROC_COMPOSE);
  std::vector<std::string> words;
  for (size_t begin = 0; begin < clean.size();) {
    const size_t end = std::min(clean.find_first_of(U" \u2028\u2029", begin), clean.size());
    const std::u32string word = clean.substr(begin, end - begin);
    if (!word.empty()) split_punctuation(lower_case ? lower_without_accents(word) : word, words);
    begin = end + 1;
  }
  return words;
}

}  // namespace cbwc
