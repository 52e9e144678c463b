// Byte-level BPE as in GPT-2: bytes become printable characters, and inside each piece the pair
// with the lowest merge rank (the leftmost of equals) is joined until none is left.
#include <utf8proc.h>

#include <array>
#include <mutex>
#include <queue>
#include <unordered_map>

#include "core/check.h"
#include "data/json.h"
#include "data/tokenizer_impl.h"

namespace cbwc {
namespace {

constexpr size_t kCachedPieces = 1 << 18, kCachedBytes = 64;

// GPT-2's bytes_to_unicode: printable bytes stand for themselves, the others for U+0100 and up.
std::array<int32_t, 256> byte_characters() {
  std::array<int32_t, 256> characters{};
  int32_t next = 256;
  for (int32_t b = 0; b < 256; ++b) {
    const bool printable =
        (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    characters[static_cast<size_t>(b)] = printable ? b : next++;
  }
  return characters;
}

std::string utf8(int32_t code) {
  utf8proc_uint8_t buffer[4];
  const auto length = utf8proc_encode_char(code, buffer);
  return {reinterpret_cast<char*>(buffer), static_cast<size_t>(length)};
}

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

struct Merge {
  int32_t rank, result;
};

struct Gpt2 : Tokenizer::Impl {
  std::vector<int32_t> encode(std::string_view text) const override;
  nlohmann::json json() const override;
  void encode_piece(std::string_view piece, std::vector<int32_t>& ids) const;
  void read_vocab(const std::string& json, const std::string& name);
  void read_merges(const std::string& name);

  std::unordered_map<std::string, int32_t> vocab;  // in byte characters, as in vocab.json
  std::vector<std::string> merges;
  BpeOptions options;
  std::unordered_map<uint64_t, Merge> merge_of;
  std::array<int32_t, 256> byte_id{};
  mutable std::mutex mutex;
  mutable std::unordered_map<std::string, std::vector<int32_t>> cache;  // short pieces seen before
};

void Gpt2::read_vocab(const std::string& json, const std::string& name) {
  try {
    vocab = nlohmann::json::parse(json).get<decltype(vocab)>();
  } catch (const nlohmann::json::exception& error) {
    detail::fail(name, ": not a vocabulary (an object of token: id): ", error.what());
  }
  const std::array<int32_t, 256> characters = byte_characters();
  std::unordered_map<int32_t, char> byte_of;
  for (size_t b = 0; b < 256; ++b) {
    byte_of[characters[b]] = static_cast<char>(b);
    const auto found = vocab.find(utf8(characters[b]));
    CBWC_CHECK(found != vocab.end(), name, ": the vocabulary has no token for byte ", b);
    byte_id[b] = found->second;
  }
  pieces.assign(vocab.size(), "");
  std::vector<bool> seen(vocab.size());
  for (const auto& [token, id] : vocab) {
    CBWC_CHECK(id >= 0 && static_cast<size_t>(id) < seen.size() && !seen[static_cast<size_t>(id)],
               name, ": id ", id, " of '", token, "' is twice there or not below the ",
               vocab.size(), " tokens");
    seen[static_cast<size_t>(id)] = true;
    if (token == options.end || options.plain.count(token) != 0) continue;
    std::string& piece = pieces[static_cast<size_t>(id)];
    for (size_t at = 0; at < token.size();) {
      int32_t code = 0;
      const auto length =
          utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(token.data() + at),
                           static_cast<utf8proc_ssize_t>(token.size() - at), &code);
      CBWC_CHECK(length > 0 && byte_of.count(code), name, ": token ", id,
                 " holds a character that stands for no byte");
      piece += byte_of[code];
      at += static_cast<size_t>(length);
    }
  }
}

void Gpt2::read_merges(const std::string& name) {
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& line = merges[rank];
    const size_t space = line.find(' ');
    CBWC_CHECK(space != std::string::npos && line.find(' ', space + 1) == std::string::npos, name,
               ": merge ", rank + 1, " is not two tokens: '", line, "'");
    const auto left = vocab.find(line.substr(0, space)), right = vocab.find(line.substr(space + 1));
    const auto joined = vocab.find(line.substr(0, space) + line.substr(space + 1));
    CBWC_CHECK(left != vocab.end() && right != vocab.end() && joined != vocab.end(), name,
               ": merge ", rank + 1, " '", line, "' uses tokens that the vocabulary lacks");
    merge_of.try_emplace(pair_key(left->second, right->second),
                         Merge{static_cast<int32_t>(rank), joined->second});
  }
}

// A linked list of symbols and a heap of pairs: n log n, so that one very long piece is no trap.
void Gpt2::encode_piece(std::string_view piece, std::vector<int32_t>& ids) const {
  struct Candidate {
    int32_t rank;
    size_t at;  // left symbol
    uint64_t key;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  const size_t n = piece.size();
  std::vector<int32_t> symbol(n);
  std::vector<size_t> next(n), previous(n);
  for (size_t i = 0; i < n; ++i) {
    symbol[i] = byte_id[static_cast<unsigned char>(piece[i])];
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto consider = [&](size_t at) {
    if (at >= n || next[at] >= n) return;
    const uint64_t key = pair_key(symbol[at], symbol[next[at]]);
    const auto merge = merge_of.find(key);
    if (merge != merge_of.end()) heap.push({merge->second.rank, at, key});
  };
  for (size_t i = 0; i + 1 < n; ++i) consider(i);
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    const size_t left = best.at, right = next[left];
    // Either symbol may have been merged since this pair was noted.
    if (symbol[left] < 0 || right >= n || pair_key(symbol[left], symbol[right]) != best.key)
      continue;
    symbol[left] = merge_of.at(best.key).result;
    symbol[right] = -1;
    next[left] = next[right];
    if (next[left] < n) previous[next[left]] = left;
    if (left > 0) consider(previous[left]);
    consider(left);
  }
  for (size_t i = 0; i < n; i = next[i]) ids.push_back(symbol[i]);
}

std::vector<int32_t> Gpt2::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  std::lock_guard lock(mutex);
  for (const std::string_view piece :
       options.split == "bloom" ? bloom_pieces(text) : gpt2_pieces(text)) {
    if (piece.size() > kCachedBytes) {
      encode_piece(piece, ids);
      continue;
    }
    if (cache.size() > kCachedPieces) cache.clear();
    const auto [entry, fresh] = cache.try_emplace(std::string(piece));
    if (fresh) encode_piece(piece, entry->second);
    ids.insert(ids.end(), entry->second.begin(), entry->second.end());
  }
  return ids;
}

nlohmann::json Gpt2::json() const {
  nlohmann::json out = {{"kind", kind}, {"vocab", vocab}, {"merges", merges}};
  if (options.split != "gpt2") out["split"] = options.split;
  return out;
}

}  // namespace

std::shared_ptr<Tokenizer::Impl> make_gpt2(const std::string& vocab_json,
                                           std::vector<std::string> merges, const std::string& name,
                                           const BpeOptions& options) {
  CBWC_CHECK(options.split == "gpt2" || options.split == "bloom", name, ": the split '",
             options.split, "' is not gpt2 or bloom");
  auto impl = std::make_shared<Gpt2>();
  impl->kind = "gpt2_bpe";
  impl->merges = std::move(merges);
  impl->options = options;
  impl->read_vocab(vocab_json, name);
  impl->read_merges(name);
  if (!options.end.empty()) {
    const auto end = impl->vocab.find(options.end);
    CBWC_CHECK(end != impl->vocab.end(), name, ": the vocabulary has no ", options.end);
    impl->set_end(end->second);
  }
  return impl;
}

}  // namespace cbwc
