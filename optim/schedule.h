// Learning rate as a pure function of the step: linear warm-up, then cosine, linear or constant.
#pragma once
#include <cstdint>
#include <string>

namespace cbwc {

enum class Decline { cosine, linear, constant };
Decline parse_decline(const std::string& name);  // "cosine", "linear", "constant"; else Error
const char* decline_name(Decline decline);

struct Schedule {
  Decline decline = Decline::cosine;
  double peak = 1e-3;
  double minimum = 0.0;  // reached at step `total` and kept; constant does not use it
  int64_t warmup = 0;    // steps; the first has peak / warmup, never 0 (cases.md P58)
  int64_t total = 1;     // steps, the warm-up included
};

void check_schedule(const Schedule& s);                 // Error for values that make no schedule
double learning_rate(const Schedule& s, int64_t step);  // steps count from 0

}  // namespace cbwc
