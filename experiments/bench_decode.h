// The decode half of bench infer: after a prompt of SEQ tokens, token by token with a KV cache, the
// arms interleaved at every token. All arms go on from one prompt's keys and values, LayerNorm's:
// the folded arm's would be the same, the others' times do not depend on them.
#pragma once
#include <string>
#include <vector>

#include "data/json.h"
#include "experiments/statistics.h"
#include "layers/model.h"

namespace cbwc {

struct DecodeArm {
  std::string name;  // as InferRow's
  Model* model;
};
struct DecodeOptions {
  int64_t tokens = 32;  // behind the prompt; from the last one it starts again behind the prompt
  double seconds = 5;   // of timed tokens, all arms together; each of the `tokens` at least once
};
// In JSON under the same names, with "name": "decode", "model", "dtype", and intervals as
// "speedup_ci95" and "ceiling_ci95".
struct DecodeRow {
  std::string arm;
  int64_t batch = 0, seq = 0;  // seq: of the prompt
  std::vector<double> ms;  // token by token (of all rows of the batch); the arms' were neighbours
  double median_ms = 0, p10_ms = 0, p90_ms = 0;
  double tokens_per_s = 0;       // batch / median
  PairedRatio speedup, ceiling;  // LayerNorm's time over this arm's, and over that without norms
  double share_of_ceiling = 0;   // as InferRow's
  double weight_mb = 0;          // weights that a token reads: all but tables that only lend rows
  double cache_mb = 0;           // keys and values that it reads, halfway
  double read_gb_per_s = 0;    // a sum over 256 MB, by all threads, between the tokens; the median
  double weight_floor_ms = 0;  // the time to read the weights at that rate
  double over_weight_floor = 0;  // median / floor; below 1 where the caches hold the weights
  double over_read_floor = 0;    // the same with the keys and values
  double peak_mb = 0;            // weights, cache and what a token needs besides
};

// The layernorm arm first, the one without norms last. ids (batch, seq): the prompt.
std::vector<DecodeRow> bench_decode(const std::vector<DecodeArm>& arms, const Tensor& ids,
                                    const DecodeOptions& options);
size_t weight_bytes_read(const Model& model);  // by one token
nlohmann::json decode_rows_json(const std::vector<DecodeRow>& rows, const std::string& model,
                                const std::string& dtype);
std::string decode_table(const std::vector<DecodeRow>& rows);  // empty without rows

}  // namespace cbwc
