#include "data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/check.h"

namespace cbwc {

MappedFile::MappedFile(const std::string& path, int fd) { map(path, fd); }

MappedFile::MappedFile(const std::string& path) {
  // A pipe is refused, not waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  CBWC_CHECK(fd >= 0, path, ": cannot open: ", std::strerror(errno));
  try {
    map(path, fd);
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);  // the mapping stays
}

void MappedFile::map(const std::string& path, int fd) {
  struct stat info {};
  CBWC_CHECK(::fstat(fd, &info) == 0, path, ": ", std::strerror(errno));
  CBWC_CHECK(S_ISREG(info.st_mode), path, ": not a file");
  bytes = static_cast<size_t>(info.st_size);
  if (bytes == 0) return;
  void* p = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  CBWC_CHECK(p != MAP_FAILED, path, ": cannot read: ", std::strerror(errno));
  data = static_cast<const unsigned char*>(p);
}

MappedFile::~MappedFile() {
  if (data != nullptr) ::munmap(const_cast<unsigned char*>(data), bytes);
}

void MappedFile::release(size_t begin, size_t end) const {
  constexpr size_t kPages = size_t{1} << 16;  // whole pages, whatever their size
  begin = (begin + kPages - 1) / kPages * kPages;
  end = end / kPages * kPages;
  if (begin < end)
    (void)::madvise(const_cast<unsigned char*>(data) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace cbwc
