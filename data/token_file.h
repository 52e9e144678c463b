// A data set of tokens in one HDF5 file: three splits of whole documents, each document closed by
// the end-of-document id, with the tokenizer and a description inside. Opening reads everything
// into memory and verifies it; after that no file is held open. Written to a temporary name and
// renamed. In the file: /SPLIT/tokens (uint16 or uint32), /SPLIT/documents (int64 starts),
// /tokenizer and /metadata (JSON text).
#pragma once
#include <array>
#include <memory>
#include <string>

#include "data/token_split.h"
#include "data/tokenizer.h"

namespace cbwc {

struct TokenFileOptions {
  bool file_locking = true;  // false for file systems without locks
};

class TokenFile {
 public:
  TokenFile(Tokenizer tokenizer, std::string description);
  static TokenFile open(const std::string& path, TokenFileOptions options = {});
  void write(const std::string& path) const;  // atomic; an existing file is replaced

  const std::string& path() const { return path_; }  // empty before open
  const Tokenizer& tokenizer() const { return tokenizer_; }
  int64_t vocab_size() const { return tokenizer_.vocab_size(); }
  const std::string& description() const { return description_; }  // where the text came from
  std::string checksum() const;  // 16 hex digits over the ids of all splits and the document starts
  // "train", "val" or "test"; shared, so that batches may outlive this object.
  std::shared_ptr<const TokenSplit> split(const std::string& name) const;
  TokenSplit& writable_split(const std::string& name);

 private:
  static TokenFile read(const std::string& path, TokenFileOptions options);
  Tokenizer tokenizer_;
  std::string description_, path_;
  std::array<std::shared_ptr<TokenSplit>, 3> splits_;
};

}  // namespace cbwc
