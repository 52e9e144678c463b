// One row of a bench command's JSON.
#pragma once
#include "data/json.h"

namespace cbwc {

// `fields` (an object) and every other key that scripts find in any bench's row, as null: name,
// arm, batch, seq, rows, cols, dtype, median_ms, p10_ms, p90_ms, gb_per_s, gflop_per_s, peak_mb.
nlohmann::json bench_row(nlohmann::json fields);

}  // namespace cbwc
