#include "data/image_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "data/atomic_file.h"
#include "data/hash.h"
#include "data/hdf5_file.h"
#include "data/in_file.h"
#include "data/json.h"
#include "data/text.h"

namespace cbwc {
namespace {

constexpr const char* kFormat = "cbwc images 1";
constexpr std::array<const char*, 3> kSplits = {"train", "val", "test"};
constexpr size_t kBlock = 8 << 20;  // bytes gathered for one write

template <class T>
uint64_t hash_list(const std::vector<T>& list, uint64_t seed) {
  return hash64(list.data(), list.size() * sizeof(T), seed ^ list.size());
}

uint64_t hash_info(const ImageFileInfo& info) {
  uint64_t hash =
      hash_list(std::vector<int64_t>{info.encoded, info.channels, info.height, info.width}, 0);
  for (const std::string& name : info.classes) hash = hash64(name.data(), name.size(), hash);
  return hash_list(info.deviation, hash_list(info.mean, hash));
}

// The images are in it through their hashes.
uint64_t hash_split(const std::vector<int32_t>& labels, const std::vector<int64_t>& offsets,
                    const std::vector<uint64_t>& hashes, uint64_t seed) {
  return hash_list(hashes, hash_list(offsets, hash_list(labels, seed)));
}

void check_info(const ImageFileInfo& info) {
  const auto channels = static_cast<size_t>(info.channels);
  CBWC_CHECK((info.channels == 1 || info.channels == 3) &&
                 (info.encoded || (info.height > 0 && info.width > 0)),
             "image file: ", info.channels, " channels of ", info.height, " x ", info.width,
             " pixels; expected 1 or 3 channels");
  CBWC_CHECK(!info.classes.empty(), "image file: no classes");
  CBWC_CHECK(info.mean.size() == channels && info.deviation.size() == channels &&
                 *std::min_element(info.deviation.begin(), info.deviation.end()) > 0,
             "image file: expected a mean and a positive deviation for each of ", channels,
             " channels");
}

void check_source(const ImageFileInfo& info, const ImageSource& source, const char* split) {
  const size_t count = source.labels.size();
  CBWC_CHECK(source.sizes.size() == count && (source.names.empty() || source.names.size() == count),
             "image file: ", split, " has ", count, " labels, ", source.sizes.size(), " sizes and ",
             source.names.size(), " names");
  for (size_t i = 0; i < count; ++i) {
    CBWC_CHECK(source.labels[i] >= 0 && source.labels[i] < std::ssize(info.classes),
               "image file: ", split, " image ", i, " has class ", source.labels[i], " of ",
               info.classes.size());
    CBWC_CHECK(source.names.empty() || source.names[i].find('\n') == std::string::npos,
               "image file: the name '", source.names[i], "' has a line break in it");
    CBWC_CHECK(info.encoded || source.sizes[i] == info.channels * info.height * info.width,
               "image file: ", split, " image ", i, " has ", source.sizes[i], " bytes, not ",
               info.channels * info.height * info.width);
  }
}

// Writes one split and returns the hash that continues `seed`.
uint64_t write_split(Hdf5File& file, const std::string& split, const ImageSource& source,
                     uint64_t seed) {
  const auto count = static_cast<int64_t>(source.labels.size());
  std::vector<int64_t> offsets = {0};
  for (const int64_t size : source.sizes) offsets.push_back(offsets.back() + size);
  std::vector<uint64_t> hashes;
  std::string block;
  hsize_t written = 0;
  file.make_group(split);
  file.reserve(split + "/bytes", H5T_NATIVE_UINT8, static_cast<hsize_t>(offsets.back()));
  const auto flush = [&] {
    file.write_part(split + "/bytes", H5T_NATIVE_UINT8, written, block.size(), block.data());
    written += block.size();
    block.clear();
  };
  for (int64_t i = 0; i < count; ++i) {
    const std::string bytes = source.read(i);
    const auto at = static_cast<size_t>(i);
    CBWC_CHECK(std::ssize(bytes) == source.sizes[at], "image file: ",
               source.names.empty() ? split + " image " + std::to_string(i) : source.names[at],
               " has ", bytes.size(), " bytes, not ", source.sizes[at],
               "; did it change while it was read?");
    hashes.push_back(hash64(bytes.data(), bytes.size()));
    block += bytes;
    if (block.size() >= kBlock) flush();
  }
  flush();
  file.write(split + "/labels", H5T_STD_I32LE, H5T_NATIVE_INT32, {source.labels.size()},
             source.labels.data());
  file.write(split + "/offsets", H5T_STD_I64LE, H5T_NATIVE_INT64, {offsets.size()}, offsets.data());
  file.write(split + "/hashes", H5T_STD_U64LE, H5T_NATIVE_UINT64, {hashes.size()}, hashes.data());
  std::string names;  // one text: a list of fixed-length names would be as wide as the longest
  for (const std::string& name : source.names) names += name + '\n';
  file.write_text(split + "/names", names);
  return hash_split(source.labels, offsets, hashes, seed);
}

template <class T>
std::vector<T> read_list(const Hdf5File& file, const std::string& path, const std::string& name,
                         hid_t type) {
  const auto shape = file.shape(name);
  CBWC_CHECK(shape.size() == 1, path, ": /", name, " is not a list");
  std::vector<T> list(shape[0]);
  if (!list.empty()) file.read(name, type, list.data());
  return list;
}

nlohmann::json read_metadata(const Hdf5File& file, const std::string& path) {
  CBWC_CHECK(file.has("metadata"), path, ": not an image file (no /metadata in it)");
  nlohmann::json metadata = nlohmann::json::parse(file.read_text("metadata"), nullptr, false);
  CBWC_CHECK(metadata.is_object() && metadata.value("format", "") == kFormat, path,
             ": not an image file of this version");
  return metadata;
}

ImageFileInfo read_info(const nlohmann::json& metadata, std::vector<std::string> classes) {
  return {.encoded = metadata.at("kind") == "encoded",
          .channels = metadata.at("channels"),
          .height = metadata.at("height"),
          .width = metadata.at("width"),
          .classes = std::move(classes),
          .mean = metadata.at("mean").get<std::vector<double>>(),
          .deviation = metadata.at("deviation").get<std::vector<double>>(),
          .description = metadata.at("description")};
}

std::shared_ptr<const int> open_descriptor(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CBWC_CHECK(fd >= 0, path, ": cannot open: ", std::strerror(errno));
  return {new int(fd), [](const int* p) {
            ::close(*p);
            delete p;
          }};
}

}  // namespace

void write_image_file(const std::string& path, const ImageFileInfo& info,
                      const std::array<ImageSource, 3>& sources) {
  check_info(info);
  uint64_t bytes = 1 << 20;
  for (size_t s = 0; s < kSplits.size(); ++s) {
    check_source(info, sources[s], kSplits[s]);
    for (const int64_t size : sources[s].sizes) bytes += static_cast<uint64_t>(size) + 20;
  }
  nlohmann::json metadata = {
      {"format", kFormat},           {"kind", info.encoded ? "encoded" : "raw"},
      {"channels", info.channels},   {"height", info.height},
      {"width", info.width},         {"mean", info.mean},
      {"deviation", info.deviation}, {"description", info.description}};
  const auto lock = hdf5_lock();
  AtomicFile target(path, bytes);
  Hdf5File file = Hdf5File::create(target.temporary());
  uint64_t hash = hash_info(info);
  for (size_t s = 0; s < kSplits.size(); ++s) {
    hash = write_split(file, kSplits[s], sources[s], hash);
    metadata["splits"][kSplits[s]] = sources[s].labels.size();
  }
  metadata["checksum"] = hex64(hash);
  file.write_names("classes", info.classes);
  file.write_text("metadata", metadata.dump(2));
  file.close();
  write_seal(target.temporary());
  target.commit();
}

size_t ImageSplit::index(int64_t i) const {
  CBWC_CHECK(i >= 0 && i < size(), file_, ": ", name_, " has no image ", i, "; it has ", size());
  return static_cast<size_t>(i);
}

std::string ImageSplit::where(int64_t i) const {
  const std::string place = fmt::format("{} image {} of {}", name_, i, file_);
  return names_.empty() ? place : fmt::format("{} ({})", names_[index(i)], place);
}

const uint8_t* ImageSplit::raw(int64_t i) const {
  return raw_.empty() ? nullptr : raw_.data() + offsets_[index(i)];
}

std::vector<uint8_t> ImageSplit::bytes(int64_t i) const {
  const size_t at = index(i);
  const auto size = static_cast<size_t>(offsets_[at + 1] - offsets_[at]);
  if (const uint8_t* pixels = raw(i)) return {pixels, pixels + size};
  std::vector<uint8_t> bytes(size);
  const auto start = static_cast<off_t>(begin_ + static_cast<uint64_t>(offsets_[at]));
  for (size_t done = 0; done < size;) {
    const ssize_t got =
        ::pread(*descriptor_, bytes.data() + done, size - done, start + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    CBWC_CHECK(got > 0, where(i), ": cannot read: ", got < 0 ? std::strerror(errno) : "cut short");
    done += static_cast<size_t>(got);
  }
  CBWC_CHECK(hash64(bytes.data(), size) == hashes_[at], where(i),
             ": damaged: its bytes do not match their checksum");
  return bytes;
}

bool ImageFile::is_one(const std::string& path) {
  try {
    const auto lock = hdf5_lock();
    read_metadata(Hdf5File::open(path, false), path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

ImageFile ImageFile::open(const std::string& path, bool file_locking) {
  return in_file(path, [&] { return read(path, file_locking); });
}

ImageFile ImageFile::read(const std::string& path, bool file_locking) {
  const auto lock = hdf5_lock();
  verify_seal(path, "image file", SealCheck::front);
  const Hdf5File file = Hdf5File::open(path, file_locking);
  const nlohmann::json metadata = read_metadata(file, path);
  ImageFile images;
  images.path_ = path;
  images.info_ = read_info(metadata, file.read_names("classes"));
  check_info(images.info_);
  if (!images.info_.encoded) verify_seal(path, "image file");
  const auto descriptor = images.info_.encoded ? open_descriptor(path) : nullptr;
  uint64_t hash = hash_info(images.info_);
  for (size_t s = 0; s < kSplits.size(); ++s) {
    const std::string name = kSplits[s];
    auto split = std::make_shared<ImageSplit>();
    split->file_ = path;
    split->name_ = name;
    split->descriptor_ = descriptor;
    split->labels_ = read_list<int32_t>(file, path, name + "/labels", H5T_NATIVE_INT32);
    split->offsets_ = read_list<int64_t>(file, path, name + "/offsets", H5T_NATIVE_INT64);
    split->hashes_ = read_list<uint64_t>(file, path, name + "/hashes", H5T_NATIVE_UINT64);
    split->names_ = stored_lines(file.read_text(name + "/names"));
    hash = hash_split(split->labels_, split->offsets_, split->hashes_, hash);
    split->begin_ = file.offset(name + "/bytes");
    if (!images.info_.encoded)
      split->raw_ = read_list<uint8_t>(file, path, name + "/bytes", H5T_NATIVE_UINT8);
    images.splits_[s] = std::move(split);
  }
  images.checksum_ = hex64(hash);
  CBWC_CHECK(metadata.value("checksum", "") == images.checksum_, path,
             ": damaged: its contents do not match their checksum");
  return images;
}

std::shared_ptr<const ImageSplit> ImageFile::split(const std::string& name) const {
  for (size_t s = 0; s < kSplits.size(); ++s)
    if (name == kSplits[s]) return splits_[s];
  detail::fail("image file: '", name, "' is not a split (train, val, test)");
}

}  // namespace cbwc
