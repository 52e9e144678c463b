#include "data/idx_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/check.h"

namespace cbwc {
namespace {

constexpr unsigned kUnsignedByte = 8;  // the third byte of an IDX file: its element type
constexpr int64_t kMostValues = int64_t{1} << 40;

class GzipFile {
 public:
  explicit GzipFile(const std::string& path) : path_(path), file_(::gzopen(path.c_str(), "rb")) {
    CBWC_CHECK(file_, path, ": cannot open: ", std::strerror(errno));
  }
  ~GzipFile() { ::gzclose(file_); }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  // How many of `bytes` there were.
  size_t read(void* out, size_t bytes) {
    constexpr size_t kMost = 1 << 30;  // gzread counts in int
    size_t done = 0;
    while (done < bytes) {
      const auto part = static_cast<unsigned>(std::min(bytes - done, kMost));
      const int got = ::gzread(file_, static_cast<char*>(out) + done, part);
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    int code = Z_OK;
    const char* reason = ::gzerror(file_, &code);
    // A cut stream is reported where the bytes are missed, with how many there were.
    CBWC_CHECK(code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR, path_,
               ": damaged: ", reason);
    return done;
  }

 private:
  const std::string path_;
  const gzFile file_;
};

}  // namespace

IdxFile read_idx(const std::string& path) {
  GzipFile file(path);
  unsigned char head[4] = {};
  CBWC_CHECK(file.read(head, 4) == 4 && head[0] == 0 && head[1] == 0 && head[3] >= 1, path,
             ": not an IDX file");
  CBWC_CHECK(head[2] == kUnsignedByte, path, ": its elements have type ", int{head[2]},
             ", not 8 (unsigned bytes)");
  IdxFile idx;
  int64_t values = 1;
  for (int axis = 0; axis < head[3]; ++axis) {
    unsigned char extent[4];
    CBWC_CHECK(file.read(extent, 4) == 4, path, ": cut in its header");
    idx.shape.push_back(int64_t{extent[0]} << 24 | int64_t{extent[1]} << 16 |
                        int64_t{extent[2]} << 8 | int64_t{extent[3]});
    const int64_t last = idx.shape.back();
    CBWC_CHECK(last == 0 || values <= kMostValues / last, path, ": not an IDX file: too large");
    values *= last;
  }
  idx.values.resize(static_cast<size_t>(values));
  const size_t got = file.read(idx.values.data(), idx.values.size());
  CBWC_CHECK(got == idx.values.size(), path, ": cut: it has ", got, " values of ", values);
  char more = 0;
  CBWC_CHECK(file.read(&more, 1) == 0, path, ": longer than the ", values, " values it announces");
  return idx;
}

}  // namespace cbwc
