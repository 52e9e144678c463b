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
  const unsigned char* data = nullptr;
  size_t bytes = 0;

 private:
  void map(const std::string& path, int fd);
};

}  // namespace cbwc
