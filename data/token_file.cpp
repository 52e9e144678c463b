#include "data/token_file.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/atomic_file.h"
#include "data/hash.h"
#include "data/hdf5_file.h"

namespace cbwc {
namespace {

constexpr int64_t kVocab16 = 65536;
constexpr const char* kFormat = "cbwc tokens 1";
constexpr std::array<const char*, 3> kSplits = {"train", "val", "test"};

size_t split_index(const std::string& name) {
  for (size_t i = 0; i < kSplits.size(); ++i)
    if (name == kSplits[i]) return i;
  detail::fail("token file: '", name, "' is not a split (train, val, test)");
}

// Every id once through a fixed 32-bit form, so that the checksum does not depend on the storage.
uint64_t split_hash(const TokenSplit& split, uint64_t seed) {
  constexpr int64_t kBlock = 1 << 16;
  std::vector<int32_t> block(kBlock);
  uint64_t hash = seed;
  for (int64_t begin = 0; begin < split.size(); begin += kBlock) {
    const int64_t count = std::min(kBlock, split.size() - begin);
    split.copy(begin, count, block.data());
    hash = hash64(block.data(), static_cast<size_t>(count) * sizeof(int32_t), hash);
  }
  const std::vector<int64_t>& starts = split.document_starts();
  return hash64(starts.data(), starts.size() * sizeof(int64_t), hash);
}

}  // namespace

TokenSplit::TokenSplit(const std::vector<int32_t>& tokens, std::vector<int64_t> documents,
                       int64_t vocab) {
  append(tokens, vocab);
  starts_ = std::move(documents);
  for (size_t i = 0; i < starts_.size(); ++i)
    CBWC_CHECK(starts_[i] >= (i ? starts_[i - 1] : 0) && starts_[i] <= size(),
               "token split: document ", i, " starts at ", starts_[i], ", out of order or beyond ",
               size(), " tokens");
}

void TokenSplit::append(const std::vector<int32_t>& document, int64_t vocab) {
  CBWC_CHECK(vocab > 0 && vocab <= std::numeric_limits<int32_t>::max(),
             "token split: a vocabulary of ", vocab);
  const auto bad = std::find_if(document.begin(), document.end(),
                                [&](int32_t id) { return id < 0 || id >= vocab; });
  CBWC_CHECK(bad == document.end(), "token split: id ", bad == document.end() ? 0 : *bad,
             " is outside the vocabulary of ", vocab);
  if (vocab > kVocab16 && std::holds_alternative<std::vector<uint16_t>>(tokens_)) {
    const auto& narrow = std::get<std::vector<uint16_t>>(tokens_);
    tokens_ = std::vector<uint32_t>(narrow.begin(), narrow.end());
  }
  starts_.push_back(size());
  std::visit([&](auto& tokens) { tokens.insert(tokens.end(), document.begin(), document.end()); },
             tokens_);
}

int64_t TokenSplit::size() const {
  return std::visit([](const auto& tokens) { return static_cast<int64_t>(tokens.size()); },
                    tokens_);
}

const void* TokenSplit::raw() const {
  return std::visit([](const auto& tokens) -> const void* { return tokens.data(); }, tokens_);
}

int32_t TokenSplit::at(int64_t i) const {
  int32_t id = 0;
  copy(i, 1, &id);
  return id;
}

void TokenSplit::copy(int64_t begin, int64_t count, int32_t* out) const {
  CBWC_CHECK(begin >= 0 && count >= 0 && begin <= size() - count, "token split: tokens ", begin,
             " to ", begin + count, " of ", size());
  std::visit([&](const auto& tokens) { std::copy_n(tokens.begin() + begin, count, out); }, tokens_);
}

TokenFile::TokenFile(Tokenizer tokenizer, std::string description)
    : tokenizer_(std::move(tokenizer)), description_(std::move(description)) {
  for (auto& split : splits_) split = std::make_shared<TokenSplit>();
}

std::shared_ptr<const TokenSplit> TokenFile::split(const std::string& name) const {
  return splits_[split_index(name)];
}

TokenSplit& TokenFile::writable_split(const std::string& name) {
  return *splits_[split_index(name)];
}

std::string TokenFile::checksum() const {
  uint64_t hash = static_cast<uint64_t>(vocab_size());
  for (const auto& split : splits_) hash = split_hash(*split, hash);
  return hex64(hash);
}

void TokenFile::write(const std::string& path) const {
  nlohmann::json metadata = {{"format", kFormat},
                             {"vocab_size", vocab_size()},
                             {"checksum", checksum()},
                             {"description", description_}};
  const std::string tokenizer = tokenizer_.to_json();
  uint64_t bytes = (1 << 20) + tokenizer.size();
  for (const auto& split : splits_)
    bytes += static_cast<uint64_t>(split->size()) * 4 + split->starts_.size() * 8;
  const auto lock = hdf5_lock();
  AtomicFile target(path, bytes);
  Hdf5File file = Hdf5File::create(target.temporary());
  const hid_t stored = vocab_size() <= kVocab16 ? H5T_STD_U16LE : H5T_STD_U32LE;
  for (size_t i = 0; i < splits_.size(); ++i) {
    const TokenSplit& split = *splits_[i];
    const std::string name = kSplits[i];
    const bool narrow = std::holds_alternative<std::vector<uint16_t>>(split.tokens_);
    file.make_group(name);
    file.write(name + "/tokens", stored, narrow ? H5T_NATIVE_UINT16 : H5T_NATIVE_UINT32,
               {static_cast<hsize_t>(split.size())}, split.raw(), true);
    file.write(name + "/documents", H5T_STD_I64LE, H5T_NATIVE_INT64, {split.starts_.size()},
               split.starts_.data(), true);
    metadata["splits"][name] = {{"tokens", split.size()}, {"documents", split.documents()}};
  }
  file.write_text("tokenizer", tokenizer);
  file.write_text("metadata", metadata.dump(2));
  file.close();
  write_seal(target.temporary());
  target.commit();
}

TokenFile TokenFile::open(const std::string& path, TokenFileOptions options) {
  const auto lock = hdf5_lock();
  verify_seal(path, "token file");
  const Hdf5File file = Hdf5File::open(path, options.file_locking);
  CBWC_CHECK(file.has("metadata") && file.has("tokenizer"), path,
             ": not a token file (no /metadata or /tokenizer in it)");
  const nlohmann::json metadata = nlohmann::json::parse(file.read_text("metadata"), nullptr, false);
  CBWC_CHECK(metadata.is_object() && metadata.value("format", "") == kFormat, path,
             ": not a token file of this version");
  TokenFile tokens(Tokenizer::from_json(file.read_text("tokenizer")),
                   metadata.value("description", ""));
  CBWC_CHECK(metadata.value("vocab_size", int64_t{0}) == tokens.vocab_size(), path,
             ": its tokenizer has ", tokens.vocab_size(), " tokens, its data were made with ",
             metadata.value("vocab_size", int64_t{0}));
  for (const std::string name : kSplits) {
    const auto extent = file.shape(name + "/tokens"), documents = file.shape(name + "/documents");
    CBWC_CHECK(extent.size() == 1 && documents.size() == 1, path, ": /", name,
               " is not two lists (tokens, documents)");
    std::vector<int32_t> ids(extent[0]);
    std::vector<int64_t> starts(documents[0]);
    if (!ids.empty()) file.read(name + "/tokens", H5T_NATIVE_INT32, ids.data());
    if (!starts.empty()) file.read(name + "/documents", H5T_NATIVE_INT64, starts.data());
    tokens.writable_split(name) = TokenSplit(ids, std::move(starts), tokens.vocab_size());
  }
  CBWC_CHECK(metadata.value("checksum", "") == tokens.checksum(), path,
             ": damaged: its tokens do not match their checksum");
  tokens.path_ = path;
  return tokens;
}

}  // namespace cbwc
