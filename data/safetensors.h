// safetensors, Hugging Face's format for weights: 8 bytes with the length of a header, the header
// (JSON: name -> dtype, shape, data_offsets), then the tensors' bytes, little-endian, row-major,
// without holes. A large model is cut into several files (shards) that an index file lists.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace cbwc {

enum class StoredType { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };
const char* stored_name(StoredType type);  // "F64", ... "BOOL"
size_t stored_size(StoredType type);       // bytes per element
DType dtype_of_stored(StoredType type);    // F16 and BF16: float32; I16, I8, U8 and BOOL: int32

struct MappedFile;

// Mapped, so that opening reads the header only and reading a tensor copies that one.
class Safetensors {
 public:
  struct Entry {
    std::string name;
    StoredType type;
    Shape shape;
    size_t file;          // which of files()
    uint64_t begin, end;  // its bytes there
  };

  // A *.safetensors file, an index (*.json), or a folder with model.safetensors or
  // model.safetensors.index.json. Error in one line that names the file and what is wrong with it:
  // everything about the header and the index is checked here.
  explicit Safetensors(const std::string& path);
  ~Safetensors();
  Safetensors(Safetensors&&) noexcept;

  const std::vector<Entry>& entries() const { return entries_; }  // in the order of their names
  const std::vector<std::string>& files() const { return files_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }  // all files'
  const Entry* find(const std::string& name) const;   // null when absent
  Tensor read(const Entry& entry) const;              // of type dtype_of_stored(), exactly
  Tensor read(const std::string& name) const;         // Error when absent
  void read(const Entry& entry, Tensor& into) const;  // contiguous, as many elements, that type

 private:
  void add_file(const std::string& path);
  void add_shards(const std::string& index);
  std::vector<Entry> entries_;
  std::vector<std::string> files_;
  std::vector<std::unique_ptr<MappedFile>> maps_;
  std::map<std::string, std::string> metadata_;
};

struct SafetensorsItem {
  std::string name;
  Tensor tensor;
  std::optional<StoredType> type = {};  // of another precision: rounded once, to nearest even
};
// At `path` all at once or not at all. RunError when it cannot be written; Error for a name given
// twice or a value that the type cannot hold.
void write_safetensors(const std::string& path, const std::vector<SafetensorsItem>& items,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace cbwc
