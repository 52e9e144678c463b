#include "data/wordpiece_trainer.h"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>

#include "core/check.h"
#include "data/tokenizer.h"

namespace cbwc {
namespace {

constexpr size_t kMostCharacters = 1000;
constexpr int64_t kRarestPair = 2;
const std::string kInside = "##";

struct Word {
  std::vector<int32_t> symbols;
  int64_t count;
};

struct Pair {
  int32_t left, right;
  auto operator<=>(const Pair&) const = default;
  uint64_t key() const { return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right); }
};

std::vector<std::string> characters(const std::string& word) {
  std::vector<std::string> out;
  for (const char byte : word) {
    const bool starts = (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    if (starts) out.push_back(out.empty() ? "" : kInside);
    out.back() += byte;
  }
  return out;
}

// Keeps for every pair how often it occurs and in which words, and joins the commonest.
class Joiner {
 public:
  Joiner(std::vector<std::string> tokens, std::vector<Word> words)
      : tokens_(std::move(tokens)), words_(std::move(words)) {
    for (size_t i = 0; i < tokens_.size(); ++i) id_of_[tokens_[i]] = static_cast<int32_t>(i);
    for (size_t w = 0; w < words_.size(); ++w) add(w, 1);
    for (const auto& [key, count] : counts_) push(key);
  }

  std::vector<std::string> run(size_t size) {
    while (tokens_.size() < size && !heap_.empty()) {
      const auto [count, pair] = heap_.top();
      heap_.pop();
      if (counts_[pair.key()] != count) continue;  // an older count of this pair
      if (count < kRarestPair) break;
      join(pair);
    }
    return tokens_;
  }

 private:
  struct Entry {
    int64_t count;
    Pair pair;
    // The commonest on top; of equals the one whose symbols are older.
    bool operator<(const Entry& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void push(uint64_t key) {
    if (counts_[key] > 0)
      heap_.push({counts_[key], {static_cast<int32_t>(key >> 32), static_cast<int32_t>(key)}});
  }

  void add(size_t w, int64_t sign, std::vector<uint64_t>* changed = nullptr) {
    const Word& word = words_[w];
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      const uint64_t key = Pair{word.symbols[i], word.symbols[i + 1]}.key();
      counts_[key] += sign * word.count;
      if (sign > 0) where_[key].push_back(w);
      if (changed) changed->push_back(key);
    }
  }

  void join(const Pair& pair) {
    const std::string text = tokens_[static_cast<size_t>(pair.left)] +
                             tokens_[static_cast<size_t>(pair.right)].substr(kInside.size());
    // "a" + "##bc" and "ab" + "##c" are one token.
    const auto [found, fresh] = id_of_.try_emplace(text, static_cast<int32_t>(tokens_.size()));
    const int32_t made = found->second;
    if (fresh) tokens_.push_back(text);
    std::vector<size_t> words = std::move(where_[pair.key()]);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::vector<uint64_t> changed;
    for (const size_t w : words) {
      add(w, -1, &changed);
      std::vector<int32_t>& s = words_[w].symbols;
      size_t to = 0;
      for (size_t from = 0; from < s.size(); ++to) {
        const bool here = from + 1 < s.size() && s[from] == pair.left && s[from + 1] == pair.right;
        s[to] = here ? made : s[from];
        from += here ? 2 : 1;
      }
      s.resize(to);
      add(w, 1, &changed);
    }
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (const uint64_t key : changed) push(key);
  }

  std::vector<std::string> tokens_;
  std::vector<Word> words_;
  std::unordered_map<std::string, int32_t> id_of_;
  std::unordered_map<uint64_t, int64_t> counts_;
  std::unordered_map<uint64_t, std::vector<size_t>> where_;
  std::priority_queue<Entry> heap_;
};

}  // namespace

std::vector<std::string> train_wordpiece(const std::vector<std::string>& texts, int64_t size,
                                         bool lower_case) {
  std::map<std::string, int64_t> words, symbols;  // sorted: the order of the texts is forgotten
  for (const std::string& text : texts)
    for (const std::string& word : bert_words(text, lower_case)) ++words[word];
  for (const auto& [word, count] : words)
    for (const std::string& symbol : characters(word)) symbols[symbol] += count;
  std::vector<std::pair<std::string, int64_t>> common(symbols.begin(), symbols.end());
  std::stable_sort(common.begin(), common.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  common.resize(std::min(common.size(), kMostCharacters));
  std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (const auto& entry : common) tokens.push_back(entry.first);
  CBWC_CHECK(size >= static_cast<int64_t>(tokens.size()), "wordpiece: a vocabulary of ", size,
             " is too small: the special tokens and characters alone are ", tokens.size());
  std::unordered_map<std::string, int32_t> id_of;
  for (size_t i = 0; i < tokens.size(); ++i) id_of[tokens[i]] = static_cast<int32_t>(i);
  std::vector<Word> cut;
  for (const auto& [word, count] : words) {
    const std::vector<std::string> parts = characters(word);
    // A word with a character that is not in the vocabulary is [UNK] and teaches nothing.
    if (!std::all_of(parts.begin(), parts.end(), [&](const auto& p) { return id_of.count(p); }))
      continue;
    cut.push_back({{}, count});
    for (const std::string& part : parts) cut.back().symbols.push_back(id_of[part]);
  }
  return Joiner(std::move(tokens), std::move(cut)).run(static_cast<size_t>(size));
}

}  // namespace cbwc
