#include "experiments/bench_row.h"

namespace cbwc {

nlohmann::json bench_row(nlohmann::json fields) {
  for (const char* key : {"name", "arm", "batch", "seq", "rows", "cols", "dtype", "median_ms",
                          "p10_ms", "p90_ms", "gb_per_s", "gflop_per_s", "peak_mb"})
    fields.emplace(key, nullptr);
  return fields;
}

}  // namespace cbwc
