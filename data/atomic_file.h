// Replaces a file all at once: write to temporary(), then commit(). Without commit the destructor
// deletes the temporary and what was there before stays; a killed writer's is deleted by the next.
// Also the seal: a 512-byte block at the front of our HDF5 files (HDF5 calls it the user block and
// skips it) with the length and hash of all bytes behind it.
#pragma once
#include <cstdint>
#include <string>

namespace cbwc {

class AtomicFile {
 public:
  // Reserves about `bytes` on disk, so that a full disk is noticed before anything is written: an
  // Error, as for any path that cannot take the file. What fails later is a RunError.
  AtomicFile(std::string path, uint64_t bytes);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  const std::string& temporary() const { return temporary_; }
  void commit();  // fsync, rename, fsync of the folder; RunError on failure

 private:
  std::string path_, temporary_;
  bool done_ = false;
};

inline constexpr uint64_t kSealBytes = 512;
void write_seal(const std::string& path);  // RunError when it cannot be written
// Error naming the file and its state: missing, empty, not HDF5, without a seal (its writer died,
// or another program wrote it), cut short, damaged. `front` does not read what lies behind the
// seal: for files too large to hash at every start, whose parts carry hashes of their own.
enum class SealCheck { whole, front };
void verify_seal(const std::string& path, const char* what, SealCheck check = SealCheck::whole);

// Delete the NAME.PID.tmp, files and folders, whose process is no more: in `folder` those of every
// NAME, and beside `path` its own alone.
void remove_dead_temporaries(const std::string& folder);
void remove_dead_temporaries_of(const std::string& path);

}  // namespace cbwc
