#include <algorithm>
#include <fstream>
#include <set>

#include "data/atomic_file.h"
#include "data/json.h"
#include "data/safetensors_types.h"

namespace cbwc {
namespace {

constexpr size_t kAlignment = 8;

StoredType type_of(const SafetensorsItem& item) {
  return item.type ? *item.type : stored_of_dtype(item.tensor.dtype());
}

uint64_t bytes_of(const SafetensorsItem& item) {
  return static_cast<uint64_t>(item.tensor.numel()) * stored_size(type_of(item));
}

// Wide elements first: every tensor is then aligned.
std::vector<const SafetensorsItem*> in_order(const std::string& path,
                                             const std::vector<SafetensorsItem>& items) {
  std::set<std::string> names;
  std::vector<const SafetensorsItem*> out;
  for (const SafetensorsItem& item : items) {
    CBWC_CHECK(!item.name.empty() && item.name != "__metadata__" &&
                   item.name.find('\0') == std::string::npos,
               path, ": a tensor's name is empty, __metadata__, or holds a zero byte");
    CBWC_CHECK(names.insert(item.name).second, path, ": two tensors are named '", item.name, "'");
    CBWC_CHECK(item.tensor.defined(), path, ": tensor '", item.name, "' is undefined");
    out.push_back(&item);
  }
  std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) {
    const size_t x = stored_size(type_of(*a)), y = stored_size(type_of(*b));
    return x != y ? x > y : a->name < b->name;
  });
  return out;
}

std::string header_of(const std::string& path, const std::vector<const SafetensorsItem*>& items,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const SafetensorsItem* item : items) {
    const uint64_t end = at + bytes_of(*item);
    header[item->name] = {{"dtype", stored_name(type_of(*item))},
                          {"shape", item->tensor.shape()},
                          {"data_offsets", {at, end}}};
    at = end;
  }
  try {
    std::string text = header.dump();
    text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
    return text;
  } catch (const nlohmann::json::type_error&) {
    detail::fail(path, ": a name or the metadata is not UTF-8");
  }
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<SafetensorsItem>& items,
                       const std::map<std::string, std::string>& metadata) {
  const auto order = in_order(path, items);
  const std::string header = header_of(path, order, metadata);
  const uint64_t length = header.size();
  uint64_t bytes = sizeof length + length;
  for (const SafetensorsItem* item : order) bytes += bytes_of(*item);
  AtomicFile target(path, bytes);
  std::ofstream file(target.temporary(), std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << header;
  for (const SafetensorsItem* item : order) {
    const StoredType type = type_of(*item);
    const Tensor host = item->tensor.to(Device::cpu).contiguous();
    if (type == stored_of_dtype(host.dtype())) {
      file.write(static_cast<const char*>(host.raw()), static_cast<std::streamsize>(host.bytes()));
    } else {
      file << narrow(type, host, path + ": tensor " + item->name);
    }
  }
  file.close();
  if (!file) throw RunError(path + ": cannot write (is the disk full?)");
  target.commit();
}

}  // namespace cbwc
