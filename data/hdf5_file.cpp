#include "data/hdf5_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "data/atomic_file.h"

namespace cbwc {
namespace {

herr_t innermost(unsigned, const H5E_error2_t* error, void* out) {
  auto& text = *static_cast<std::string*>(out);
  if (error->desc && *error->desc) text = error->desc;
  return 0;
}

// What HDF5 says about its last failure, from the place where it happened.
std::string reason() {
  std::string text = "no reason given";
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned n, const H5E_error2_t* e, void* out) {
        return n == 0 ? innermost(n, e, out) : 0;
      },
      &text);
  H5Eclear2(H5E_DEFAULT);
  return text;
}

std::string explain(const std::string& why) {
  if (why.find("truncated") != std::string::npos) return "damaged: the file is cut short";
  if (why.find("unable to lock") != std::string::npos)
    return "locked by a writer, or the file system has no locks (then switch file locking off): " +
           why;
  return why;
}

Handle space(const std::vector<hsize_t>& shape) {
  if (shape.empty()) return {H5Screate(H5S_SCALAR), H5Sclose};
  return {H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose};
}

Handle string_type(size_t bytes) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), std::max<size_t>(bytes, 1));
  H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  return type;
}

constexpr hsize_t kDeflateChunk = hsize_t{1} << 16;  // elements
constexpr unsigned kDeflateLevel = 4;

}  // namespace

std::unique_lock<std::recursive_mutex> hdf5_lock() {
  static std::recursive_mutex mutex;
  std::unique_lock lock(mutex);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // its errors become ours; it prints nothing
  return lock;
}

hid_t Hdf5File::written(hid_t id, const char* step) const {
  if (id < 0) throw RunError(fmt::format("{}: cannot write ({}): {}", path_, step, reason()));
  return id;
}

hid_t Hdf5File::found(hid_t id, const std::string& name) const {
  if (id < 0) throw Error(fmt::format("{}: cannot read '{}': {}", path_, name, reason()));
  return id;
}

Hdf5File Hdf5File::create(const std::string& path) {
  Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_userblock(creation.id(), kSealBytes);
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  // Nobody else knows the temporary name, and a file system without locks must not stop a run.
  H5Pset_file_locking(access.id(), false, true);
  const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), access.id());
  if (id < 0) throw RunError(fmt::format("{}: cannot create: {}", path, reason()));
  return {path, id};
}

Hdf5File Hdf5File::open(const std::string& path, bool file_locking, const std::string& expected) {
  std::error_code ignored;
  CBWC_CHECK(std::filesystem::exists(path, ignored), path, ": no such file; expected ", expected);
  CBWC_CHECK(!std::filesystem::is_directory(path, ignored), path, ": is a folder; expected ",
             expected);
  CBWC_CHECK(::access(path.c_str(), R_OK) == 0, path, ": cannot open: ", std::strerror(errno));
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.id(), file_locking, true);
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id());
  if (id < 0) {
    const std::string why = explain(reason());  // before the next call, which forgets it
    CBWC_CHECK(H5Fis_hdf5(path.c_str()) != 0, path, ": is no HDF5 file; expected ", expected);
    throw Error(fmt::format("{}: cannot open: {}", path, why));
  }
  return {path, id};
}

void Hdf5File::make_group(const std::string& name) {
  Handle group(written(H5Gcreate2(file_.id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                       "a group"),
               H5Gclose);
}

void Hdf5File::write(const std::string& name, hid_t file_type, hid_t memory_type,
                     const std::vector<hsize_t>& shape, const void* data, bool deflate) {
  const Handle extent = space(shape);
  Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER);
  const bool empty = std::find(shape.begin(), shape.end(), hsize_t{0}) != shape.end();
  if (deflate && !empty && shape.size() == 1) {
    const hsize_t chunk = std::min(shape[0], kDeflateChunk);
    H5Pset_chunk(creation.id(), 1, &chunk);
    H5Pset_shuffle(creation.id());
    H5Pset_deflate(creation.id(), kDeflateLevel);
  }
  Handle set(written(H5Dcreate2(file_.id(), name.c_str(), file_type, extent.id(), H5P_DEFAULT,
                                creation.id(), H5P_DEFAULT),
                     name.c_str()),
             H5Dclose);
  if (!empty && data)
    written(H5Dwrite(set.id(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), name.c_str());
  written(set.close(), name.c_str());
}

void Hdf5File::write_text(const std::string& name, const std::string& text) {
  // Bytes, deflated: a fixed-length string type would end at 64 KiB in some readers.
  write(name, H5T_STD_U8LE, H5T_NATIVE_UINT8, {text.size()}, text.data(), true);
}

void Hdf5File::write_names(const std::string& name, const std::vector<std::string>& values) {
  size_t longest = 1;
  for (const std::string& value : values) longest = std::max(longest, value.size());
  std::string packed(longest * values.size(), '\0');
  for (size_t i = 0; i < values.size(); ++i) values[i].copy(&packed[i * longest], longest);
  const Handle type = string_type(longest);
  write(name, type.id(), type.id(), {values.size()}, packed.data());
}

void Hdf5File::reserve(const std::string& name, hid_t type, hsize_t size) {
  write(name, type, type, {size}, nullptr);
}

void Hdf5File::write_part(const std::string& name, hid_t type, hsize_t start, hsize_t count,
                          const void* data) {
  if (count == 0) return;
  Handle set(written(H5Dopen2(file_.id(), name.c_str(), H5P_DEFAULT), name.c_str()), H5Dclose);
  const Handle all(written(H5Dget_space(set.id()), name.c_str()), H5Sclose);
  const Handle part = space({count});
  written(H5Sselect_hyperslab(all.id(), H5S_SELECT_SET, &start, nullptr, &count, nullptr),
          name.c_str());
  written(H5Dwrite(set.id(), type, part.id(), all.id(), H5P_DEFAULT, data), name.c_str());
}

uint64_t Hdf5File::offset(const std::string& name) const {
  Handle set(found(H5Dopen2(file_.id(), name.c_str(), H5P_DEFAULT), name), H5Dclose);
  const haddr_t address = H5Dget_offset(set.id());
  return address == HADDR_UNDEF ? 0 : address;
}

void Hdf5File::close() {
  written(H5Fflush(file_.id(), H5F_SCOPE_GLOBAL), "flush");
  written(file_.close(), "close");
}

bool Hdf5File::has(const std::string& name) const {
  return H5Lexists(file_.id(), name.c_str(), H5P_DEFAULT) > 0;
}

std::vector<hsize_t> Hdf5File::shape(const std::string& name) const {
  Handle set(found(H5Dopen2(file_.id(), name.c_str(), H5P_DEFAULT), name), H5Dclose);
  Handle extent(found(H5Dget_space(set.id()), name), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(extent.id());
  std::vector<hsize_t> shape(static_cast<size_t>(std::max(rank, 0)));
  if (rank > 0) H5Sget_simple_extent_dims(extent.id(), shape.data(), nullptr);
  return shape;
}

Handle Hdf5File::type(const std::string& name) const {
  Handle set(found(H5Dopen2(file_.id(), name.c_str(), H5P_DEFAULT), name), H5Dclose);
  return {found(H5Dget_type(set.id()), name), H5Tclose};
}

void Hdf5File::read(const std::string& name, hid_t memory_type, void* data) const {
  Handle set(found(H5Dopen2(file_.id(), name.c_str(), H5P_DEFAULT), name), H5Dclose);
  found(H5Dread(set.id(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), name);
}

std::string Hdf5File::read_text(const std::string& name) const {
  const std::vector<hsize_t> extent = shape(name);
  CBWC_CHECK(extent.size() == 1, path_, ": '", name, "' is not a list of bytes");
  std::string text(extent[0], '\0');
  if (!text.empty()) read(name, H5T_NATIVE_UINT8, text.data());
  return text;
}

std::vector<std::string> Hdf5File::read_names(const std::string& name) const {
  const std::vector<hsize_t> extent = shape(name);
  const Handle stored = type(name);
  CBWC_CHECK(extent.size() == 1 && H5Tget_class(stored.id()) == H5T_STRING, path_, ": '", name,
             "' is not a list of names");
  const size_t width = H5Tget_size(stored.id());
  std::string packed(width * extent[0], '\0');
  if (!packed.empty()) read(name, stored.id(), packed.data());
  std::vector<std::string> values;
  for (size_t i = 0; i < extent[0]; ++i) {
    std::string value = packed.substr(i * width, width);
    value.erase(value.find_last_not_of('\0') + 1);
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace cbwc
