// A folder of its own under the system's temporary one, for another program's files; gone with the
// object.
#pragma once
#include <string>

namespace cbwc {

class TemporaryFolder {
 public:
  TemporaryFolder();  // Error where none can be made, naming the place
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace cbwc
