#include "data/token_file.h"

#include "data/atomic_file.h"
#include "data/hash.h"
#include "data/hdf5_file.h"
#include "data/in_file.h"
#include "data/json.h"

namespace cbwc {
namespace {

constexpr const char* kFormat = "cbwc tokens 1";

}  // namespace

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
  for (const auto& split : splits_) hash = split->hash(hash);
  return hex64(hash);
}

void TokenFile::write(const std::string& path) const {
  nlohmann::json metadata = {{"format", kFormat},
                             {"vocab_size", vocab_size()},
                             {"checksum", checksum()},
                             {"description", description_}};
  const std::string tokenizer = tokenizer_.to_json();
  uint64_t bytes = (1 << 20) + tokenizer.size();
  for (const auto& split : splits_) bytes += split->bytes_to_write();
  const auto lock = hdf5_lock();
  AtomicFile target(path, bytes);
  Hdf5File file = Hdf5File::create(target.temporary());
  for (size_t i = 0; i < splits_.size(); ++i) {
    const TokenSplit& split = *splits_[i];
    split.write(file, kSplitNames[i], vocab_size());
    metadata["splits"][kSplitNames[i]] = {{"tokens", split.size()},
                                          {"documents", split.documents()}};
  }
  file.write_text("tokenizer", tokenizer);
  file.write_text("metadata", metadata.dump(2));
  file.close();
  write_seal(target.temporary());
  target.commit();
}

TokenFile TokenFile::open(const std::string& path, TokenFileOptions options) {
  return in_file(path, [&] { return read(path, options); });
}

TokenFile TokenFile::read(const std::string& path, TokenFileOptions options) {
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
  for (const std::string name : kSplitNames)
    tokens.writable_split(name) = TokenSplit::read(file, path, name, tokens.vocab_size());
  CBWC_CHECK(metadata.value("checksum", "") == tokens.checksum(), path,
             ": damaged: its tokens do not match their checksum");
  tokens.path_ = path;
  return tokens;
}

}  // namespace cbwc
