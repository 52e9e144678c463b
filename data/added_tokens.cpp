// Finding a folder's added tokens in a text, as the `tokenizers` library does: those that are not
// normalised first, the others in what is left; each time the longest of the leftmost matches.
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "data/tokenizer_impl.h"

namespace cbwc {
namespace {

bool is_blank_at(std::string_view text, size_t at, size_t& bytes) {
  utf8proc_int32_t c = 0;
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                       static_cast<utf8proc_ssize_t>(text.size() - at), &c);
  bytes = length > 0 ? static_cast<size_t>(length) : 1;
  const auto kind = utf8proc_category(c);
  return length > 0 && ((c >= 9 && c <= 13) || c == 0x85 ||
                        (kind >= UTF8PROC_CATEGORY_ZS && kind <= UTF8PROC_CATEGORY_ZP));
}

size_t without_blanks_before(std::string_view text, size_t begin, size_t end) {
  while (end > begin) {
    size_t at = end - 1, bytes = 0;
    while (at > begin && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (!is_blank_at(text, at, bytes)) break;
    end = at;
  }
  return end;
}

size_t behind_blanks(std::string_view text, size_t at) {
  for (size_t bytes = 0; at < text.size() && is_blank_at(text, at, bytes);) at += bytes;
  return at;
}

class Finder {
 public:
  Finder(const std::vector<AddedToken>& added, bool normalized) {
    for (const AddedToken& token : added)
      if (token.normalized == normalized)
        by_first_[static_cast<unsigned char>(token.content[0])].push_back(&token);
    for (auto& tokens : by_first_)
      std::stable_sort(tokens.begin(), tokens.end(), [](const auto* a, const auto* b) {
        return a->content.size() > b->content.size();
      });
  }

  void split(std::string_view text, std::vector<TextPart>& out) const {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const AddedToken* token = find(text, at);
      if (token == nullptr) {
        ++at;
        continue;
      }
      const size_t begin = token->lstrip ? without_blanks_before(text, done, at) : at;
      if (begin > done) out.push_back({-1, text.substr(done, begin - done)});
      out.push_back({token->id, {}});
      at += token->content.size();
      if (token->rstrip) at = behind_blanks(text, at);
      done = at;
    }
    if (done < text.size()) out.push_back({-1, text.substr(done)});
  }

 private:
  const AddedToken* find(std::string_view text, size_t at) const {
    for (const AddedToken* token : by_first_[static_cast<unsigned char>(text[at])])
      if (text.compare(at, token->content.size(), token->content) == 0) return token;
    return nullptr;
  }
  std::array<std::vector<const AddedToken*>, 256> by_first_;
};

}  // namespace

std::vector<TextPart> split_added(std::string_view text, const std::vector<AddedToken>& added) {
  std::vector<TextPart> first, parts;
  Finder(added, false).split(text, first);
  const Finder normalized(added, true);
  for (const TextPart& part : first) {
    if (part.id >= 0)
      parts.push_back(part);
    else
      normalized.split(part.text, parts);
  }
  return parts;
}

}  // namespace cbwc
