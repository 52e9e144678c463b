// The time that matrix products need at least: what a whole step or pass is measured against.
#pragma once
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/dtype.h"
#include "core/kernels/blas.h"

namespace cbwc {

struct GemmTime {
  int64_t m, n, k;
  std::string transposes;  // "nn", "nt", "tn", "tt"
  int64_t calls;
  double best_ms, gflop_per_s;
};

class GemmFloor {
 public:
  explicit GemmFloor(DType dtype) : dtype_(dtype) {}
  double best_ms(const GemmShape& shape);  // of several warm products; each shape is timed once
  std::vector<GemmTime> times(const std::vector<GemmShape>& products);
  // The sum over all calls as it is at this moment: every product is timed again, warm and briefly,
  // and joins the best ones.
  double round_ms(const std::vector<GemmShape>& products);

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t, bool, bool>;
  static Key key_of(const GemmShape& shape);
  DType dtype_;
  std::map<Key, double> known_;
};

double floor_ms(const std::vector<GemmTime>& products);  // the sum over all calls

}  // namespace cbwc
