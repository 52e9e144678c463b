// The one home of the HDF5 C API: handles that close themselves, errors as exceptions with the
// file's name and HDF5's own reason. The library is not thread safe here, so every use holds
// hdf5_lock(). Private to data/*.cpp.
#pragma once
#include <hdf5.h>

#include <mutex>
#include <string>
#include <vector>

#include "core/check.h"

namespace cbwc {

std::unique_lock<std::recursive_mutex> hdf5_lock();

class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(other.id_), close_(other.close_) { other.id_ = -1; }
  Handle& operator=(Handle&&) = delete;
  Handle(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  hid_t id() const { return id_; }
  herr_t close() {
    const hid_t id = id_;
    id_ = -1;
    return close_(id);
  }

 private:
  hid_t id_;
  Close close_;
};

// A file being written (behind a seal block) or read. Failing writes are RunErrors, bad files
// Errors.
class Hdf5File {
 public:
  static Hdf5File create(const std::string& path);
  // Error in one line when it is a folder or of another format; `expected`: what it should be.
  static Hdf5File open(const std::string& path, bool file_locking,
                       const std::string& expected = "a file that `cbwc data` made");

  void make_group(const std::string& name);
  // Plain layout when deflate is false: the data go to the disk in one write without a copy.
  void write(const std::string& name, hid_t file_type, hid_t memory_type,
             const std::vector<hsize_t>& shape, const void* data, bool deflate = false);
  void write_text(const std::string& name, const std::string& text);
  // A dataset, not an attribute: attributes end at 64 KiB.
  void write_names(const std::string& name, const std::vector<std::string>& values);
  // One list written part by part, and where its bytes lie in the file (for pread, which needs no
  // lock): plain layout, one type on disk and in memory.
  void reserve(const std::string& name, hid_t type, hsize_t size);
  void write_part(const std::string& name, hid_t type, hsize_t start, hsize_t count,
                  const void* data);
  uint64_t offset(const std::string& name) const;  // 0 for an empty list
  void close();                                    // reports what a destructor could not

  bool has(const std::string& name) const;
  std::vector<hsize_t> shape(const std::string& name) const;
  Handle type(const std::string& name) const;
  void read(const std::string& name, hid_t memory_type, void* data) const;
  std::string read_text(const std::string& name) const;
  std::vector<std::string> read_names(const std::string& name) const;

 private:
  Hdf5File(std::string path, hid_t id) : path_(std::move(path)), file_(id, H5Fclose) {}
  hid_t written(hid_t id, const char* step) const;       // RunError when negative
  hid_t found(hid_t id, const std::string& name) const;  // Error when negative
  std::string path_;
  Handle file_;
};

}  // namespace cbwc
