// Named tensors and a JSON text in one HDF5 file, written so that a crash, a kill or a full disk
// leaves the previous file whole: temporary name in the same folder, fsync, rename, fsync of the
// folder. A seal over every byte of the file is verified before HDF5 reads any of it.
// In the file: /names (strings, in order), /tensors/000000... and /attributes (JSON text).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace cbwc {

struct Checkpoint {
  std::vector<std::pair<std::string, Tensor>> tensors;  // any names (dots, slashes), each once
  std::string attributes_json = "{}";

  const Tensor* find(const std::string& name) const;    // nullptr when absent
  const Tensor& tensor(const std::string& name) const;  // Error naming it when absent
};

// RunError when the file cannot be written (disk full, ...); what was at `path` is then unchanged.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

// Error naming the file: missing, not HDF5, cut, damaged, or its writer died.
Checkpoint read_checkpoint(const std::string& path, bool file_locking = true);

// The newest whole checkpoint (*.h5) of a folder by the last number in its name, "" when there is
// none; damaged ones on the way are named in `skipped`, each with its reason.
std::string newest_checkpoint(const std::string& folder,
                              std::vector<std::string>* skipped = nullptr);

}  // namespace cbwc
