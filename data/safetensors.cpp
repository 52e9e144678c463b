#include "data/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <set>

#include "data/json.h"
#include "data/mapped_file.h"
#include "data/safetensors_types.h"

namespace cbwc {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little);
constexpr uint64_t kLengthBytes = 8, kLargestHeader = 100'000'000;
constexpr const char* kMetadata = "__metadata__";
constexpr int kDeepest = 3;  // of the format itself: name, its object, its lists

// For one line of text, whatever bytes a file calls a name.
std::string quoted(const std::string& name) {
  return Json(name.substr(0, 200)).dump(-1, ' ', true, Json::error_handler_t::replace);
}

// A key given twice is a mistake that JSON readers pass over: the last one wins.
Json parse_json(const char* begin, const char* end, const std::string& where) {
  std::vector<std::set<std::string>> keys(kDeepest + 2);
  const auto seen = [&](int depth, Json::parse_event_t event, Json& value) {
    CBWC_CHECK(depth <= kDeepest, where, ": nested deeper than the format has it");
    const auto level = static_cast<size_t>(depth);
    if (event == Json::parse_event_t::object_start) keys[level + 1].clear();
    if (event == Json::parse_event_t::key)
      CBWC_CHECK(keys[level].insert(value.get<std::string>()).second, where, ": ",
                 quoted(value.get<std::string>()), " comes twice");
    return true;
  };
  try {
    Json json = Json::parse(begin, end, seen);
    CBWC_CHECK(json.is_object(), where, ": not a JSON object");
    return json;
  } catch (const Json::parse_error& error) {
    detail::fail(where, ": not JSON (at byte ", error.byte, ")");
  } catch (const Json::out_of_range&) {
    detail::fail(where, ": a number is out of range");
  }
}

// An integer of at least 0 that 63 bits hold.
int64_t natural(const Json& value, const std::string& where) {
  constexpr uint64_t kMost = INT64_MAX;
  CBWC_CHECK(value.is_number_unsigned() && value.get<uint64_t>() <= kMost, where,
             ": expected a whole number of at least 0");
  return value.get<int64_t>();
}

std::map<std::string, std::string> read_metadata(const Json& json, const std::string& path) {
  CBWC_CHECK(json.is_object(), path, ": ", kMetadata, " is not an object of texts");
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : json.items()) {
    CBWC_CHECK(value.is_string(), path, ": ", kMetadata, ": ", quoted(key), " is not a text");
    out[key] = value.get<std::string>();
  }
  return out;
}

// The bytes of shape x type. An extent of 0 does not hide that the others overflow.
uint64_t bytes_of(const Shape& shape, StoredType type, const std::string& where) {
  uint64_t bytes = stored_size(type);
  bool empty = false;
  for (const int64_t extent : shape) {
    empty |= extent == 0;
    const auto factor = static_cast<uint64_t>(std::max<int64_t>(extent, 1));
    CBWC_CHECK(!__builtin_mul_overflow(bytes, factor, &bytes) && bytes <= INT64_MAX / 8, where,
               ": its shape has more elements than 64 bits count");
  }
  return empty ? 0 : bytes;
}

Safetensors::Entry read_entry(const std::string& name, const Json& json, const std::string& path) {
  const std::string where = path + ": tensor " + quoted(name);
  CBWC_CHECK(!name.empty() && name.find('\0') == std::string::npos, where,
             ": its name is empty or holds a zero byte");
  CBWC_CHECK(json.is_object() && json.size() == 3 && json.contains("dtype") &&
                 json.contains("shape") && json.contains("data_offsets"),
             where, ": expected dtype, shape and data_offsets");
  Safetensors::Entry e{name, StoredType::f32, {}, 0, 0, 0};
  CBWC_CHECK(json["dtype"].is_string(), where, ": its dtype is not a text");
  const auto type = parse_stored(json["dtype"].get<std::string>());
  CBWC_CHECK(type.has_value(), where, ": dtype ", quoted(json["dtype"].get<std::string>()),
             "; known are F64, F32, F16, BF16, I64, I32, I16, I8, U8 and BOOL");
  e.type = *type;
  CBWC_CHECK(json["shape"].is_array(), where, ": its shape is not a list");
  for (const Json& extent : json["shape"]) e.shape.push_back(natural(extent, where + ": shape"));
  const Json& offsets = json["data_offsets"];
  CBWC_CHECK(offsets.is_array() && offsets.size() == 2, where,
             ": its data_offsets are not two numbers");
  e.begin = static_cast<uint64_t>(natural(offsets[0], where + ": data_offsets"));
  e.end = static_cast<uint64_t>(natural(offsets[1], where + ": data_offsets"));
  const uint64_t expected = bytes_of(e.shape, e.type, where);
  CBWC_CHECK(e.begin <= e.end && e.end - e.begin == expected, where, ": data_offsets ", e.begin,
             " to ", e.end, ", but its shape and dtype take ", expected, " bytes");
  CBWC_CHECK(e.begin % stored_size(e.type) == 0, where, ": begins at byte ", e.begin,
             " of the data, not a multiple of its element's ", stored_size(e.type), " bytes");
  return e;
}

// Every byte of the data belongs to exactly one tensor.
void check_layout(std::vector<Safetensors::Entry>& entries, uint64_t bytes,
                  const std::string& path) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t at = 0;
  for (const Safetensors::Entry& e : entries) {
    CBWC_CHECK(e.end <= bytes, path, ": tensor ", quoted(e.name), " ends at byte ", e.end,
               " of the data, but the file has ", bytes, " (cut short?)");
    CBWC_CHECK(e.begin >= at, path, ": tensor ", quoted(e.name),
               " overlaps the one before it, which ends at byte ", at, " of the data");
    CBWC_CHECK(e.begin == at, path, ": bytes ", at, " to ", e.begin,
               " of the data belong to no tensor");
    at = e.end;
  }
  CBWC_CHECK(at == bytes, path, ": bytes ", at, " to ", bytes, " of the data belong to no tensor");
}

std::string find_file(const std::string& path) {
  if (!fs::is_directory(path)) return path;
  const fs::path folder(path);
  const bool whole = fs::exists(folder / "model.safetensors"),
             sharded = fs::exists(folder / "model.safetensors.index.json");
  CBWC_CHECK(!(whole && sharded), path,
             ": both model.safetensors and model.safetensors.index.json; which one is the model?");
  if (whole) return (folder / "model.safetensors").string();
  if (sharded) return (folder / "model.safetensors.index.json").string();
  CBWC_CHECK(!fs::exists(folder / "pytorch_model.bin"), path,
             ": only pytorch_model.bin, which is a Python program; write it again with "
             "save_pretrained(folder, safe_serialization=True)");
  detail::fail(path, ": neither model.safetensors nor model.safetensors.index.json is there");
}

}  // namespace

Safetensors::Safetensors(const std::string& path) {
  const std::string file = find_file(path);
  if (fs::path(file).extension() == ".json")
    add_shards(file);
  else
    add_file(file);
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
}

Safetensors::~Safetensors() = default;
Safetensors::Safetensors(Safetensors&&) noexcept = default;

void Safetensors::add_file(const std::string& path) {
  auto map = std::make_unique<MappedFile>(path);
  CBWC_CHECK(map->bytes >= kLengthBytes, path, ": ", map->bytes,
             " bytes, too short for a safetensors file");
  uint64_t length;
  std::memcpy(&length, map->data, kLengthBytes);
  CBWC_CHECK(length <= kLargestHeader, path, ": its header would be ", length,
             " bytes long, at most ", kLargestHeader, " are allowed (not a safetensors file?)");
  CBWC_CHECK(length <= map->bytes - kLengthBytes, path, ": its header would be ", length,
             " bytes long, the file has ", map->bytes, " (cut short?)");
  const char* text = reinterpret_cast<const char*>(map->data) + kLengthBytes;
  const Json header = parse_json(text, text + length, path + ": header");
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata)
      metadata_.merge(read_metadata(value, path));
    else
      entries.push_back(read_entry(name, value, path));
  }
  const uint64_t data = kLengthBytes + length;
  check_layout(entries, map->bytes - data, path);
  for (Entry& e : entries) {
    e.file = files_.size();
    e.begin += data;
    e.end += data;
  }
  entries_.insert(entries_.end(), entries.begin(), entries.end());
  files_.push_back(path);
  maps_.push_back(std::move(map));
}

void Safetensors::add_shards(const std::string& index) {
  const MappedFile map(index);
  CBWC_CHECK(map.bytes <= kLargestHeader, index, ": larger than ", kLargestHeader, " bytes");
  const char* text = reinterpret_cast<const char*>(map.data);
  const Json json = parse_json(text, text + map.bytes, index);
  CBWC_CHECK(json.contains("weight_map") && json["weight_map"].is_object(), index,
             ": no weight_map in it");
  std::map<std::string, std::string> home;  // of each tensor
  std::set<std::string> shards;
  for (const auto& [name, value] : json["weight_map"].items()) {
    const std::string file = value.is_string() ? value.get<std::string>() : "";
    CBWC_CHECK(!file.empty() && file.find_first_of(std::string("/\\\0", 3)) == std::string::npos &&
                   file != "." && file != "..",
               index, ": the shard of ", quoted(name), " is not a file's name");
    home[name] = file;
    shards.insert(file);
  }
  std::set<std::string> seen;
  for (const std::string& shard : shards) {
    const std::string path = (fs::path(index).parent_path() / shard).string();
    CBWC_CHECK(fs::exists(path), index, ": its shard ", quoted(shard), " is missing");
    const size_t before = entries_.size();
    add_file(path);
    for (size_t i = before; i < entries_.size(); ++i) {
      const std::string& name = entries_[i].name;
      CBWC_CHECK(seen.insert(name).second, path, ": tensor ", quoted(name),
                 " is in another shard too");
      const auto listed = home.find(name);
      CBWC_CHECK(listed != home.end(), path, ": tensor ", quoted(name), " is not in the index");
      CBWC_CHECK(listed->second == shard, path, ": tensor ", quoted(name),
                 " is here, the index says ", quoted(listed->second));
    }
  }
  for (const auto& [name, shard] : home)
    CBWC_CHECK(seen.count(name) != 0, index, ": tensor ", quoted(name), " is not in its shard ",
               quoted(shard));
}

const Safetensors::Entry* Safetensors::find(const std::string& name) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const Entry& e, const auto& n) { return e.name < n; });
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

Tensor Safetensors::read(const Entry& entry) const {
  Tensor out = Tensor::empty(entry.shape, dtype_of_stored(entry.type));
  read(entry, out);
  return out;
}

void Safetensors::read(const Entry& entry, Tensor& into) const {
  CBWC_CHECK(into.is_contiguous() && into.numel() == numel(entry.shape) &&
                 into.dtype() == dtype_of_stored(entry.type),
             "safetensors: ", quoted(entry.name), " does not fit where it is read to");
  widen(entry.type, maps_[entry.file]->data + entry.begin, into);
  maps_[entry.file]->release(entry.begin, entry.end);
}

Tensor Safetensors::read(const std::string& name) const {
  const Entry* entry = find(name);
  CBWC_CHECK(entry != nullptr, files_.empty() ? "safetensors" : files_[0], ": there is no tensor ",
             quoted(name));
  return read(*entry);
}

}  // namespace cbwc
