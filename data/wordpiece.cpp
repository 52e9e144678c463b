// WordPiece (Wu et al., 2016) as BERT uses it: each word is cut into the longest pieces of the
// vocabulary, from its left; pieces inside a word begin with "##".
#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "core/check.h"
#include "data/json.h"
#include "data/text.h"
#include "data/tokenizer_impl.h"

namespace cbwc {
namespace {

constexpr int64_t kLongestWord = 100;  // in characters; a longer one is unknown
constexpr size_t kCachedWords = 1 << 18;
constexpr std::string_view kInside = "##";

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

struct WordPiece : Tokenizer::Impl {
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(const std::vector<int32_t>& ids) const override;
  nlohmann::json json() const override;
  std::vector<int32_t> encode_word(const std::string& word) const;

  bool lower_case = true;
  std::optional<BertNormalizer> normalizer;  // of a model folder
  std::unordered_map<std::string, int32_t> vocab;
  mutable std::mutex mutex;
  mutable std::unordered_map<std::string, std::vector<int32_t>> cache;  // words seen before
};

std::vector<int32_t> WordPiece::encode_word(const std::string& word) const {
  if (std::count_if(word.begin(), word.end(), starts_character) > kLongestWord)
    return {specials.unknown};
  std::vector<int32_t> ids;
  for (size_t begin = 0; begin < word.size();) {
    size_t end = word.size();
    const std::string inside(begin > 0 ? kInside : "");
    for (;; --end) {
      if (end == begin) return {specials.unknown};  // one missing piece makes the word unknown
      if (end < word.size() && !starts_character(word[end])) continue;
      const auto found = vocab.find(inside + word.substr(begin, end - begin));
      if (found == vocab.end()) continue;
      ids.push_back(found->second);
      break;
    }
    begin = end;
  }
  return ids;
}

std::vector<int32_t> WordPiece::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  const std::vector<std::string> words =
      normalizer ? bert_words(text, *normalizer) : bert_words(text, lower_case);
  std::lock_guard lock(mutex);
  for (const std::string& word : words) {
    if (cache.size() > kCachedWords) cache.clear();
    const auto [entry, fresh] = cache.try_emplace(word);
    if (fresh) entry->second = encode_word(word);
    ids.insert(ids.end(), entry->second.begin(), entry->second.end());
  }
  return ids;
}

std::string WordPiece::decode(const std::vector<int32_t>& ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id == specials.begin || id == specials.end || id == specials.pad) continue;
    const std::string& token = pieces[static_cast<size_t>(id)];
    if (token.size() > kInside.size() && token.compare(0, kInside.size(), kInside) == 0) {
      text += token.substr(kInside.size());
      continue;
    }
    if (!text.empty()) text += ' ';
    text += token;
  }
  return text;
}

nlohmann::json WordPiece::json() const {
  nlohmann::json out = {{"kind", kind}, {"lower_case", lower_case}, {"vocab", pieces}};
  if (normalizer) {
    out["strip_accents"] = normalizer->strip_accents;
    out["split_cjk"] = normalizer->split_cjk;
  }
  return out;
}

}  // namespace

std::shared_ptr<Tokenizer::Impl> make_wordpiece(std::vector<std::string> vocab, bool lower_case,
                                                const std::string& name,
                                                std::optional<BertNormalizer> normalizer) {
  auto impl = std::make_shared<WordPiece>();
  impl->kind = "wordpiece";
  impl->lower_case = normalizer ? normalizer->lower_case : lower_case;
  impl->normalizer = normalizer;
  impl->pieces = std::move(vocab);
  for (size_t i = 0; i < impl->pieces.size(); ++i) {
    const std::string& token = impl->pieces[i];
    CBWC_CHECK(invalid_utf8(token) == std::string_view::npos, name, ":", i + 1, ": not UTF-8");
    const auto [found, fresh] = impl->vocab.try_emplace(token, static_cast<int32_t>(i));
    CBWC_CHECK(fresh, name, ":", i + 1, ": '", token, "' is there already (line ",
               found->second + 1, ")");
  }
  const auto special = [&](const char* token) {
    const auto found = impl->vocab.find(token);
    CBWC_CHECK(found != impl->vocab.end(), name, ": a vocabulary of ", impl->pieces.size(),
               " tokens without ", token, "; expected one token a line, as in BERT's vocab.txt");
    return found->second;
  };
  impl->specials = {.begin = special("[CLS]"),
                    .end = special("[SEP]"),
                    .pad = special("[PAD]"),
                    .mask = special("[MASK]"),
                    .unknown = special("[UNK]")};
  impl->end_of_document = impl->specials.end;
  return impl;
}

}  // namespace cbwc
