#include "optim/schedule.h"

#include <cmath>
#include <numbers>

#include "core/check.h"

namespace cbwc {

Decline parse_decline(const std::string& name) {
  for (Decline d : {Decline::cosine, Decline::linear, Decline::constant}) {
    if (name == decline_name(d)) return d;
  }
  detail::fail("schedule: expected cosine, linear or constant, got '", name, "'");
}

const char* decline_name(Decline decline) {
  if (decline == Decline::cosine) return "cosine";
  return decline == Decline::linear ? "linear" : "constant";
}

void check_schedule(const Schedule& s) {
  CBWC_CHECK(s.total >= 1, "schedule: total must be at least 1, got ", s.total);
  CBWC_CHECK(0 <= s.warmup && s.warmup <= s.total, "schedule: warm-up of ", s.warmup,
             " steps does not fit ", s.total, " in total");
  CBWC_CHECK(std::isfinite(s.peak) && s.peak >= 0, "schedule: bad peak ", s.peak);
  CBWC_CHECK(std::isfinite(s.minimum) && 0 <= s.minimum && s.minimum <= s.peak,
             "schedule: the minimum ", s.minimum, " is not between 0 and the peak ", s.peak);
}

double learning_rate(const Schedule& s, int64_t step) {
  check_schedule(s);
  CBWC_CHECK(step >= 0, "schedule: negative step ", step);
  if (step < s.warmup) {
    return s.peak * static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  }
  if (s.decline == Decline::constant) return s.peak;
  if (step >= s.total) return s.minimum;
  const double t = static_cast<double>(step - s.warmup) / static_cast<double>(s.total - s.warmup);
  const double left =
      s.decline == Decline::cosine ? 0.5 * (1.0 + std::cos(std::numbers::pi * t)) : 1.0 - t;
  return s.minimum + (s.peak - s.minimum) * left;
}

}  // namespace cbwc
