#include "data/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "data/atomic_file.h"
#include "data/hdf5_file.h"

namespace cbwc {
namespace {

struct StoredType {
  hid_t file, memory;
};

StoredType stored_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {H5T_IEEE_F32LE, H5T_NATIVE_FLOAT};
    case DType::f64:
      return {H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE};
    case DType::i32:
      return {H5T_STD_I32LE, H5T_NATIVE_INT32};
    default:
      return {H5T_STD_I64LE, H5T_NATIVE_INT64};
  }
}

DType dtype_of_stored(const Handle& type, const std::string& path) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64})
    if (H5Tequal(type.id(), stored_type(dtype).file) > 0) return dtype;
  detail::fail(path, ": a tensor of an unknown element type");
}

std::string dataset_name(size_t i) { return fmt::format("tensors/{:06}", i); }

void check_contents(const std::string& path, const Checkpoint& checkpoint) {
  std::set<std::string> seen;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    CBWC_CHECK(!name.empty() && name.find('\0') == std::string::npos, path,
               ": a tensor's name is empty or holds a zero byte");
    CBWC_CHECK(seen.insert(name).second, path, ": two tensors are named '", name, "'");
    CBWC_CHECK(tensor.defined(), path, ": tensor '", name, "' is undefined");
  }
}

uint64_t size_estimate(const Checkpoint& checkpoint) {
  constexpr uint64_t kFixed = 64 << 10, kPerTensor = 1024;
  uint64_t bytes = kFixed + checkpoint.attributes_json.size();
  for (const auto& [name, tensor] : checkpoint.tensors)
    bytes += tensor.bytes() + name.size() + kPerTensor;
  return bytes;
}

void write_contents(const std::string& path, const Checkpoint& checkpoint) {
  Hdf5File file = Hdf5File::create(path);
  std::vector<std::string> names;
  file.make_group("tensors");
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const Tensor host = tensor.to(Device::cpu).contiguous();
    const StoredType type = stored_type(host.dtype());
    const std::vector<hsize_t> shape(host.shape().begin(), host.shape().end());
    file.write(dataset_name(names.size()), type.file, type.memory, shape,
               host.numel() ? host.raw() : nullptr);
    names.push_back(name);
  }
  file.write_names("names", names);
  file.write_text("attributes", checkpoint.attributes_json);
  file.close();
}

// The last run of digits in a file's name: the step of "step-000500.h5".
int64_t last_number(const std::string& stem) {
  const size_t end = stem.find_last_of("0123456789");
  if (end == std::string::npos) return -1;
  size_t begin = end;
  while (begin > 0 && stem[begin - 1] >= '0' && stem[begin - 1] <= '9') --begin;
  return std::strtoll(stem.substr(begin, end - begin + 1).c_str(), nullptr, 10);
}

Hdf5File open_checkpoint(const std::string& path, bool file_locking) {
  verify_seal(path, "checkpoint");
  Hdf5File file = Hdf5File::open(path, file_locking);
  CBWC_CHECK(file.has("names") && file.has("tensors") && file.has("attributes"), path,
             ": not a checkpoint (no /names, /tensors or /attributes in it)");
  return file;
}

}  // namespace

const Tensor* Checkpoint::find(const std::string& name) const {
  for (const auto& entry : tensors)
    if (entry.first == name) return &entry.second;
  return nullptr;
}

const Tensor& Checkpoint::tensor(const std::string& name) const {
  const Tensor* found = find(name);
  CBWC_CHECK(found, "checkpoint: there is no tensor '", name, "' in it");
  return *found;
}

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  check_contents(path, checkpoint);
  const auto lock = hdf5_lock();
  AtomicFile target(path, size_estimate(checkpoint));
  write_contents(target.temporary(), checkpoint);
  write_seal(target.temporary());
  target.commit();
}

Checkpoint read_checkpoint(const std::string& path, bool file_locking) {
  const auto lock = hdf5_lock();
  const Hdf5File file = open_checkpoint(path, file_locking);
  Checkpoint checkpoint;
  checkpoint.attributes_json = file.read_text("attributes");
  const std::vector<std::string> names = file.read_names("names");
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string dataset = dataset_name(i);
    const DType dtype = dtype_of_stored(file.type(dataset), path);
    const std::vector<hsize_t> extent = file.shape(dataset);
    Tensor tensor = Tensor::empty(Shape(extent.begin(), extent.end()), dtype);
    if (tensor.numel() > 0) file.read(dataset, stored_type(dtype).memory, tensor.raw());
    checkpoint.tensors.emplace_back(names[i], std::move(tensor));
  }
  return checkpoint;
}

std::string newest_checkpoint(const std::string& folder, std::vector<std::string>* skipped) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code))
    if (entry.path().extension() == ".h5")
      found.emplace_back(last_number(entry.path().stem().string()), entry.path().string());
  CBWC_CHECK(!code, folder, ": cannot read this checkpoint folder: ", code.message());
  std::sort(found.rbegin(), found.rend());
  for (const auto& [number, path] : found) {
    try {
      const auto lock = hdf5_lock();
      open_checkpoint(path, false);
      return path;
    } catch (const Error& error) {
      if (skipped) skipped->push_back(error.what());
    }
  }
  return "";
}

}  // namespace cbwc
