// Documents of token ids, one after the other: 16 bits an id where the vocabulary allows it, else
// 32. The part that token files and sequence files share.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace cbwc {

class Hdf5File;

inline constexpr std::array<const char*, 3> kSplitNames = {"train", "val", "test"};
size_t split_index(const std::string& name);  // of kSplitNames; Error for another name

class TokenSplit {
 public:
  TokenSplit() = default;
  // Error for an id outside [0, vocab).
  TokenSplit(const std::vector<int32_t>& tokens, std::vector<int64_t> documents, int64_t vocab);
  void append(const std::vector<int32_t>& document, int64_t vocab);  // one whole document

  // For messages: "FILE: the split val" once read from a file.
  const std::string& name() const { return name_; }
  int64_t size() const;
  int64_t documents() const { return static_cast<int64_t>(starts_.size()); }
  const std::vector<int64_t>& document_starts() const { return starts_; }
  int64_t document_size(int64_t document) const;  // in tokens
  std::vector<int32_t> document(int64_t document) const;
  int32_t at(int64_t i) const;
  void copy(int64_t begin, int64_t count, int32_t* out) const;  // Error outside the split
  uint64_t hash(uint64_t seed) const;  // over ids and starts, however wide the ids are stored

  // As /GROUP/tokens and /GROUP/documents. Private to data/*.cpp, like Hdf5File.
  void write(Hdf5File& file, const std::string& group, int64_t vocab) const;
  static TokenSplit read(const Hdf5File& file, const std::string& path, const std::string& group,
                         int64_t vocab);
  uint64_t bytes_to_write() const;  // at most

 private:
  std::variant<std::vector<uint16_t>, std::vector<uint32_t>> tokens_;
  std::vector<int64_t> starts_;
  std::string name_ = "the split";
};

}  // namespace cbwc
