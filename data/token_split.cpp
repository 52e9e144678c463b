#include "data/token_split.h"

#include <algorithm>
#include <limits>

#include "data/hash.h"
#include "data/hdf5_file.h"
#include "data/in_file.h"

namespace cbwc {
namespace {

constexpr int64_t kVocab16 = 65536;

}  // namespace

size_t split_index(const std::string& name) {
  for (size_t i = 0; i < kSplitNames.size(); ++i)
    if (name == kSplitNames[i]) return i;
  detail::fail("data file: '", name, "' is not a split (train, val, test)");
}

TokenSplit::TokenSplit(const std::vector<int32_t>& tokens, std::vector<int64_t> documents,
                       int64_t vocab) {
  append(tokens, vocab);
  starts_ = std::move(documents);
  for (size_t i = 0; i < starts_.size(); ++i)
    CBWC_CHECK(starts_[i] >= (i ? starts_[i - 1] : 0) && starts_[i] <= size(), "document ", i,
               " starts at ", starts_[i], ", out of order or beyond ", size(), " tokens");
}

void TokenSplit::append(const std::vector<int32_t>& document, int64_t vocab) {
  CBWC_CHECK(vocab > 0 && vocab <= std::numeric_limits<int32_t>::max(),
             "token split: a vocabulary of ", vocab);
  const auto bad = std::find_if(document.begin(), document.end(),
                                [&](int32_t id) { return id < 0 || id >= vocab; });
  CBWC_CHECK(bad == document.end(), "token ", size() + (bad - document.begin()), " has the id ",
             bad == document.end() ? 0 : *bad, ", outside the vocabulary of ", vocab);
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

int64_t TokenSplit::document_size(int64_t document) const {
  CBWC_CHECK(document >= 0 && document < documents(), "token split: document ", document, " of ",
             documents());
  const size_t i = static_cast<size_t>(document);
  return (i + 1 < starts_.size() ? starts_[i + 1] : size()) - starts_[i];
}

std::vector<int32_t> TokenSplit::document(int64_t document) const {
  std::vector<int32_t> ids(static_cast<size_t>(document_size(document)));
  copy(starts_[static_cast<size_t>(document)], static_cast<int64_t>(ids.size()), ids.data());
  return ids;
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

// Every id once through a fixed 32-bit form, so that the hash does not depend on the storage.
uint64_t TokenSplit::hash(uint64_t seed) const {
  constexpr int64_t kBlock = 1 << 16;
  std::vector<int32_t> block(kBlock);
  uint64_t hash = seed;
  for (int64_t begin = 0; begin < size(); begin += kBlock) {
    const int64_t count = std::min(kBlock, size() - begin);
    copy(begin, count, block.data());
    hash = hash64(block.data(), static_cast<size_t>(count) * sizeof(int32_t), hash);
  }
  return hash64(starts_.data(), starts_.size() * sizeof(int64_t), hash);
}

uint64_t TokenSplit::bytes_to_write() const {
  return static_cast<uint64_t>(size()) * sizeof(uint32_t) + starts_.size() * sizeof(int64_t);
}

void TokenSplit::write(Hdf5File& file, const std::string& group, int64_t vocab) const {
  file.make_group(group);
  const bool narrow = std::holds_alternative<std::vector<uint16_t>>(tokens_);
  const void* raw = std::visit(
      [](const auto& tokens) { return static_cast<const void*>(tokens.data()); }, tokens_);
  file.write(group + "/tokens", vocab <= kVocab16 ? H5T_STD_U16LE : H5T_STD_U32LE,
             narrow ? H5T_NATIVE_UINT16 : H5T_NATIVE_UINT32, {static_cast<hsize_t>(size())}, raw,
             true);
  file.write(group + "/documents", H5T_STD_I64LE, H5T_NATIVE_INT64, {starts_.size()},
             starts_.data(), true);
}

TokenSplit TokenSplit::read(const Hdf5File& file, const std::string& path, const std::string& group,
                            int64_t vocab) {
  const auto extent = file.shape(group + "/tokens"), documents = file.shape(group + "/documents");
  CBWC_CHECK(extent.size() == 1 && documents.size() == 1, path, ": /", group,
             " is not two lists (tokens, documents)");
  std::vector<int32_t> ids(extent[0]);
  std::vector<int64_t> starts(documents[0]);
  if (!ids.empty()) file.read(group + "/tokens", H5T_NATIVE_INT32, ids.data());
  if (!starts.empty()) file.read(group + "/documents", H5T_NATIVE_INT64, starts.data());
  TokenSplit split =
      in_file(path + ": /" + group, [&] { return TokenSplit(ids, std::move(starts), vocab); });
  split.name_ = path + ": the split " + group;
  return split;
}

}  // namespace cbwc
