#include "data/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/check.h"

namespace cbwc {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::error_code none;
  const fs::path place = fs::temp_directory_path(none);
  CBWC_CHECK(!none, "no folder for temporary files: ", none.message(),
             "; expected TMPDIR, or else /tmp, to be one");
  path_ = (place / "cbwc_XXXXXX").string();  // mkdtemp puts a name of its own for the X
  CBWC_CHECK(::mkdtemp(path_.data()) != nullptr, place.string(),
             ": cannot make a temporary folder there: ", std::strerror(errno));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace cbwc
