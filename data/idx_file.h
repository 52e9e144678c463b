// IDX files (the format of MNIST and its kin), plain or gzipped, of unsigned bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cbwc {

struct IdxFile {
  std::vector<int64_t> shape;
  std::vector<uint8_t> values;  // row-major
};

// Error naming the file: missing, not IDX, another element type, cut short, or longer than it says.
IdxFile read_idx(const std::string& path);

}  // namespace cbwc
