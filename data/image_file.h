// A data set of images in one HDF5 file: raw 8-bit pixels of equal size, or the bytes of JPEG and
// PNG files as they were (of any size, decoded when read). With labels, class names, normalisation
// and the name of each source. Written atomically and sealed, as token files are (atomic_file.h).
// In the file: /metadata (JSON), /classes, and for train, val, test: bytes, offsets, labels,
// hashes, names.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/check.h"

namespace cbwc {

struct ImageFileInfo {
  bool encoded = false;                         // else raw
  int64_t channels = 3, height = 0, width = 0;  // height, width: 0 when encoded
  std::vector<std::string> classes;
  std::vector<double> mean, deviation;  // of each channel, for pixels of 0 to 1
  std::string description;
};

// What a split is written from. read(i) gives image i: sizes[i] bytes.
struct ImageSource {
  std::vector<int32_t> labels;
  std::vector<int64_t> sizes;
  std::vector<std::string> names;  // of the files; empty for none
  std::function<std::string(int64_t)> read;
};

// sources: train, val, test. Never holds more than one image and a block of the output in memory.
void write_image_file(const std::string& path, const ImageFileInfo& info,
                      const std::array<ImageSource, 3>& sources);

class ImageSplit {
 public:
  int64_t size() const { return static_cast<int64_t>(labels_.size()); }
  int32_t label(int64_t i) const { return labels_[index(i)]; }
  // "cats/1.jpg (train image 7 of FILE)", for messages.
  std::string where(int64_t i) const;
  // Raw pixels (channels, height, width) or an encoded file. Error when the bytes are damaged. Any
  // number of threads at once.
  std::vector<uint8_t> bytes(int64_t i) const;
  const uint8_t* raw(int64_t i) const;  // nullptr when encoded

 private:
  friend class ImageFile;
  size_t index(int64_t i) const;
  std::string file_, name_;
  std::shared_ptr<const int> descriptor_;  // encoded: open as long as somebody reads
  uint64_t begin_ = 0;                     // of /bytes in the file
  std::vector<uint8_t> raw_;
  std::vector<int64_t> offsets_;
  std::vector<int32_t> labels_;
  std::vector<uint64_t> hashes_;
  std::vector<std::string> names_;
};

// Raw files are read into memory and verified as a whole. Of encoded ones everything but the
// images is; each image is read and verified when it is wanted.
class ImageFile {
 public:
  static ImageFile open(const std::string& path, bool file_locking = true);
  static bool is_one(const std::string& path);  // by its metadata; false also when unreadable

  const ImageFileInfo& info() const { return info_; }
  const std::string& path() const { return path_; }
  const std::string& checksum() const { return checksum_; }  // of all that training can see
  int64_t classes() const { return static_cast<int64_t>(info_.classes.size()); }
  std::shared_ptr<const ImageSplit> split(const std::string& name) const;

 private:
  static ImageFile read(const std::string& path, bool file_locking);
  std::string path_, checksum_;
  ImageFileInfo info_;
  std::array<std::shared_ptr<ImageSplit>, 3> splits_;
};

}  // namespace cbwc
