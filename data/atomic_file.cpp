#include "data/atomic_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/check.h"
#include "data/hash.h"
#include "data/mapped_file.h"

namespace cbwc {
namespace {

constexpr char kSealMagic[8] = {'C', 'B', 'W', 'C', 'S', 'E', 'A', 'L'};
constexpr unsigned char kHdf5Magic[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
constexpr uint64_t kSealVersion = 1;

// The front block as it lies in the file; its own hash covers the fields before it.
struct Seal {
  char magic[8];
  uint64_t version, bytes, hash, own_hash;
  char zeros[kSealBytes - 40];
};
static_assert(sizeof(Seal) == kSealBytes);

[[noreturn]] void fail_write(const std::string& path, const char* step, int code) {
  throw RunError(fmt::format("{}: cannot write ({}): {}", path, step, std::strerror(code)));
}

struct Descriptor {
  explicit Descriptor(int fd) : fd(fd) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int fd;
};

Seal make_seal(const MappedFile& file) {
  Seal seal{};
  std::memcpy(seal.magic, kSealMagic, sizeof kSealMagic);
  seal.version = kSealVersion;
  seal.bytes = file.bytes;
  seal.hash = chunked_hash64(
      file.data + kSealBytes, file.bytes - kSealBytes, 0,
      [&](size_t begin, size_t end) { file.release(kSealBytes + begin, kSealBytes + end); });
  seal.own_hash = hash64(&seal, offsetof(Seal, own_hash));
  return seal;
}

void remove_dead(const std::filesystem::path& folder, const std::filesystem::path& name) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::filesystem::path path = entry.path();
    const std::string pid = path.stem().extension().string();  // name.h5.PID.tmp
    if (path.extension() != ".tmp" || pid.size() < 2 ||
        pid.find_first_not_of("0123456789", 1) != std::string::npos ||
        (!name.empty() && path.stem().stem() != name))
      continue;
    const long writer = std::strtol(pid.c_str() + 1, nullptr, 10);
    if (writer != ::getpid() && ::kill(static_cast<pid_t>(writer), 0) != 0 && errno == ESRCH)
      std::filesystem::remove_all(path, ignored);
  }
}

bool has_hdf5_magic(const MappedFile& file, size_t at) {
  return file.bytes >= at + 8 && std::memcmp(file.data + at, kHdf5Magic, 8) == 0;
}

}  // namespace

AtomicFile::AtomicFile(std::string path, uint64_t bytes) : path_(std::move(path)) {
  std::error_code none;
  CBWC_CHECK(!std::filesystem::exists(path_, none) || std::filesystem::is_regular_file(path_, none),
             path_, ": is no file that could be replaced");
  // A link goes on pointing at its file.
  if (const auto real = std::filesystem::canonical(path_, none); !none) path_ = real.string();
  remove_dead_temporaries_of(path_);
  temporary_ = fmt::format("{}.{}.tmp", path_, ::getpid());
  Descriptor file(::open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd < 0) fail_write(path_, "create a temporary file beside it", errno);
  // Not posix_fallocate: where the file system cannot reserve, that one writes every block instead.
  if (::fallocate(file.fd, 0, 0, static_cast<off_t>(bytes)) != 0 && errno != EOPNOTSUPP &&
      errno != ENOSYS && errno != EINTR) {
    const int code = errno;
    ::unlink(temporary_.c_str());
    detail::fail(path_, ": no room for its ", bytes, " bytes: ", std::strerror(code));
  }
}

AtomicFile::~AtomicFile() {
  if (!done_) ::unlink(temporary_.c_str());
}

void AtomicFile::commit() {
  {
    Descriptor file(::open(temporary_.c_str(), O_RDWR | O_CLOEXEC));
    if (file.fd < 0) fail_write(path_, "open the temporary file", errno);
    if (::fsync(file.fd) != 0) fail_write(path_, "fsync", errno);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_write(path_, "rename", errno);
  done_ = true;
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  Descriptor directory(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems refuse to sync a folder; the rename itself has happened by now.
  if (directory.fd >= 0) (void)::fsync(directory.fd);
}

void write_seal(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.fd < 0) fail_write(path, "open for its seal", errno);
  const MappedFile mapping(path, file.fd);
  if (mapping.bytes <= kSealBytes) throw RunError(path + ": nothing was written");
  const Seal seal = make_seal(mapping);
  const ssize_t written = ::pwrite(file.fd, &seal, sizeof seal, 0);
  if (written != static_cast<ssize_t>(sizeof seal)) fail_write(path, "seal", errno);
}

void verify_seal(const std::string& path, const char* what, SealCheck check) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  CBWC_CHECK(file.fd >= 0, path, ": cannot open this ", what, ": ", std::strerror(errno));
  struct stat info {};
  CBWC_CHECK(::fstat(file.fd, &info) == 0 && S_ISREG(info.st_mode), path, ": not a file");
  const MappedFile mapping(path, file.fd);
  CBWC_CHECK(mapping.bytes > 0, path, ": empty file, not a ", what);
  Seal seal{};
  std::memcpy(&seal, mapping.data, std::min(mapping.bytes, sizeof seal));
  if (std::memcmp(seal.magic, kSealMagic, sizeof kSealMagic) != 0) {
    CBWC_CHECK(!has_hdf5_magic(mapping, 0), path, ": an HDF5 file, but not a ", what,
               " of this program");
    CBWC_CHECK(!has_hdf5_magic(mapping, kSealBytes), path,
               ": unfinished or damaged: the seal at its front is missing; its writer died before "
               "the end. Delete it and write it again");
    detail::fail(path, ": not an HDF5 file (expected a ", what, ")");
  }
  CBWC_CHECK(
      mapping.bytes >= sizeof seal && seal.own_hash == hash64(&seal, offsetof(Seal, own_hash)),
      path, ": damaged: its seal does not match itself");
  CBWC_CHECK(seal.version == kSealVersion, path, ": written by another version of this program");
  CBWC_CHECK(mapping.bytes == seal.bytes, path,
             ": damaged: ", mapping.bytes < seal.bytes ? "cut at " : "grown to ", mapping.bytes,
             " bytes, ", seal.bytes, " were written");
  if (check == SealCheck::front) return;
  const Seal expected = make_seal(mapping);
  CBWC_CHECK(std::memcmp(&seal, &expected, sizeof seal) == 0, path,
             ": damaged: its bytes do not match its checksum");
}

void remove_dead_temporaries(const std::string& folder) { remove_dead(folder, ""); }

void remove_dead_temporaries_of(const std::string& path) {
  const std::filesystem::path at = std::filesystem::absolute(path);
  remove_dead(at.parent_path(), at.filename());
}

}  // namespace cbwc
