// Writing past the caches. A plain store first reads the line that it overwrites and pushes out
// what else is there; a large result would have left the caches before anybody reads it. Whether
// that pays depends on how fast the last cache is beside memory, so it is measured, once.
#pragma once
#include <cstdint>
#include <optional>

namespace cbwc::cpu {

// Of `rows` rows of `row_bytes`, which are written row by row: is the result large (8 MiB), do its
// rows lie on whole vectors, and does it pay on this machine? The bits are the same either way.
bool is_streamed(const void* out, int64_t rows, int64_t row_bytes);
// Both on whole vectors (64 bytes). stream_end() before another thread may read.
void stream(void* to, const void* from, int64_t bytes);
void stream_end();

void force_streaming(std::optional<bool> pays);  // for tests; nothing: as measured

}  // namespace cbwc::cpu
