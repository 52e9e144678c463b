// A whole file mapped for reading. `data` is null for an empty one.
#pragma once
#include <cstddef>
#include <string>

namespace cbwc {

struct MappedFile {
  MappedFile(const std::string& path, int fd);   // of a file that the caller opened
  explicit MappedFile(const std::string& path);  // Error naming the file: missing, no file, ...
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  // The bytes [begin, end) have been read: they need not stay in memory. Reading them again works.
  void release(size_t begin, size_t end) const;
  const unsigned char* data = nullptr;
  size_t bytes = 0;

 private:
  void map(const std::string& path, int fd);
};

}  // namespace cbwc
