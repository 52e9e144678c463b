// A data set of short texts in one HDF5 file. A sample is one text or two, as token ids without
// specials and never cut, and a class where the kind has one. As safe as a token file: read as a
// whole, verified, written to a temporary name and renamed. In the file: /SPLIT/first and
// /SPLIT/second (tokens, documents), /SPLIT/labels, /SPLIT/references, /tokenizer,
// /target_tokenizer where there are two, /metadata (JSON text).
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/token_file.h"

namespace cbwc {

enum class SequenceKind {
  classification,  // first: a text; second: a second text of it, or nothing; label: its class
  pairs,           // first: source; second: its translation
  instructions     // first: prompt; second: answer
};
const char* to_string(SequenceKind kind);

struct SequenceSplit {
  TokenSplit first, second;             // sample i is document i; second is empty for single texts
  std::vector<int32_t> labels;          // classification only
  std::vector<std::string> references;  // pairs only: the translation as text, for BLEU
  int64_t size() const { return first.documents(); }
  bool has_second() const { return second.documents() > 0; }
};

struct SequenceSample {
  std::string first = {}, second = {};
  int32_t label = -1;
};

class SequenceFile {
 public:
  // `target` only where the second text has a tokenizer of its own.
  SequenceFile(SequenceKind kind, Tokenizer tokenizer, std::optional<Tokenizer> target,
               std::vector<std::string> classes, std::string description);
  static SequenceFile open(const std::string& path, TokenFileOptions options = {});
  void write(const std::string& path) const;  // atomic; an existing file is replaced

  void add(const std::string& split, const SequenceSample& sample, bool with_second);

  SequenceKind kind() const { return kind_; }
  const std::string& path() const { return path_; }  // empty before open
  const std::string& description() const { return description_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const Tokenizer& target_tokenizer() const { return target_ ? *target_ : tokenizer_; }
  bool two_tokenizers() const { return target_.has_value(); }
  const std::vector<std::string>& classes() const { return classes_; }  // names, by label
  std::string checksum() const;
  std::shared_ptr<const SequenceSplit> split(const std::string& name) const;
  // This split alone, its texts encoded by another tokenizer; they are known where they were
  // encoded byte by byte. Error for another tokenizer that does not keep them, and for two of them.
  SequenceFile encoded_by(const Tokenizer& tokenizer, const std::string& split) const;

 private:
  static SequenceFile read(const std::string& path, TokenFileOptions options);
  void check_split(const SequenceSplit& split, const std::string& where) const;
  SequenceKind kind_;
  Tokenizer tokenizer_;
  std::optional<Tokenizer> target_;
  std::vector<std::string> classes_;
  std::string description_, path_;
  std::array<std::shared_ptr<SequenceSplit>, 3> splits_;
};

// The same pieces, ids and treatment of case and accents. What a folder adds (its own tokens, the
// wrap) does not count, and so do characters newer than its tables.
bool encode_alike(const Tokenizer& a, const Tokenizer& b);
// What a data file calls itself: "tokens", "sequences", ... without verifying it. Error when it is
// missing or not one of ours.
std::string data_file_format(const std::string& path, bool file_locking = true);
Tokenizer stored_tokenizer(const std::string& path, bool file_locking = true);  // of any text file

}  // namespace cbwc
