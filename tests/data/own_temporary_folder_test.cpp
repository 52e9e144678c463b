// TemporaryFolder: one of its own each time, gone with the object, and one clear line where none
// can be.
#include "data/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace cbwc {
namespace {

namespace fs = std::filesystem;

// TMPDIR for one scope.
struct TmpDir {
  std::string before;
  bool set;
  explicit TmpDir(const char* value) : set(std::getenv("TMPDIR") != nullptr) {
    if (set) before = std::getenv("TMPDIR");
    ::setenv("TMPDIR", value, 1);
  }
  ~TmpDir() {
    if (set)
      ::setenv("TMPDIR", before.c_str(), 1);
    else
      ::unsetenv("TMPDIR");
  }
};

TEST_CASE("a temporary folder is one's own and goes with its content") {
  std::string path;
  {
    const TemporaryFolder a, b;
    path = a.path();
    CHECK(a.path() != b.path());
    CHECK(fs::is_directory(a.path()));
    std::ofstream(path + "/file") << "text";
    CHECK(fs::exists(path + "/file"));
  }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("where no temporary folder can be made, the place is named") {
  const TmpDir none("/no/such/folder");
  CHECK_THAT(testing::message_of([] { TemporaryFolder folder; }), ContainsSubstring("TMPDIR"));
  CHECK_THROWS_AS(TemporaryFolder(), Error);
}

}  // namespace
}  // namespace cbwc
