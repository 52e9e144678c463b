#include "experiments/out_path.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/check.h"
#include "data/atomic_file.h"

namespace cbwc {
namespace fs = std::filesystem;
namespace {

fs::path folder_of(const fs::path& path) {
  const fs::path absolute = fs::absolute(path).lexically_normal();
  return absolute.has_filename() ? absolute.parent_path() : absolute.parent_path().parent_path();
}

// Whether `path` is the folder or lies in it, by the names alone.
bool lies_in(const fs::path& path, const fs::path& folder) {
  const fs::path inner = (fs::absolute(path) / "").lexically_normal(),
                 outer = fs::absolute(folder).lexically_normal();
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// "" when files can be made in the folder, else why not.
std::string problem_with(const fs::path& folder) {
  std::error_code failed;
  const fs::file_status status = fs::status(folder, failed);
  if (status.type() == fs::file_type::not_found)
    return "the folder " + folder.string() + " does not exist";
  if (failed) return folder.string() + ": " + failed.message();
  if (!fs::is_directory(status)) return folder.string() + " is not a folder";
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return "the folder " + folder.string() + ": " + std::strerror(errno);
  return "";
}

void check_replaceable(const std::string& path, const OutputKind& kind) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  if (!fs::is_regular_file(path, ignored)) {
    CBWC_CHECK(!kind.file, path, ": is a device or pipe; expected the name of a file to write");
    return;
  }
  std::string front(std::strlen(kind.begins), '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(front.data(), static_cast<std::streamsize>(front.size()));
  CBWC_CHECK(in.gcount() == 0 || front == kind.begins, path, ": exists and is not ", kind.what,
             "; nothing was changed, give another name");
}

}  // namespace

void check_can_write(const std::string& path, const OutputKind& kind, const std::string& made) {
  std::error_code ignored;
  const bool is_made = !made.empty() && lies_in(path, made) && lies_in(made, path);
  CBWC_CHECK(!is_made, path, ": is what --out makes; give another name");
  CBWC_CHECK(!fs::is_directory(path, ignored), path,
             ": is a folder; expected the name of a file to write");
  check_replaceable(path, kind);
  const fs::path folder = folder_of(path);
  if (!made.empty() && !fs::exists(folder, ignored) && lies_in(made, folder)) return;
  const std::string problem = problem_with(folder);
  CBWC_CHECK(problem.empty(), path, ": cannot be written: ", problem);
}

void check_can_make(const std::string& path) {
  std::error_code ignored;
  fs::path there = fs::absolute(path).lexically_normal();
  while (fs::status(there, ignored).type() == fs::file_type::not_found && there.has_relative_path())
    there = there.parent_path();
  const std::string problem = problem_with(there);
  CBWC_CHECK(problem.empty(), path, ": cannot be created: ", problem);
}

void check_new_folder(const std::string& path) {
  std::error_code ignored;
  CBWC_CHECK(!fs::exists(fs::symlink_status(path, ignored)), path,
             ": exists, nothing was changed; give another --out");
  check_can_make(path);
}

void make_folders(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  CBWC_CHECK(!failed, path, ": cannot be created: ", failed.message());
}

NewFolder::NewFolder(const std::string& out) : out_(fs::absolute(out).lexically_normal()) {
  check_new_folder(out);
  if (out_.ends_with('/')) out_.pop_back();
  remove_dead_temporaries_of(out_);
  path_ = fmt::format("{}.{}.tmp", out_, ::getpid());
  make_folders(path_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void NewFolder::commit() {
  if (std::rename(path_.c_str(), out_.c_str()) != 0)
    throw RunError(out_ + ": cannot be created: " + std::strerror(errno));
  path_.clear();
}

void copy_into(const std::string& file, const std::string& folder, const std::string& name) {
  const fs::path to = fs::path(folder) / name;
  make_folders(to.parent_path().string());
  std::error_code failed;
  fs::copy_file(file, to, failed);
  CBWC_CHECK(!failed, file, ": cannot be copied to ", to.string(), ": ", failed.message());
}

}  // namespace cbwc
