#include "optim/schedule.h"

#include <cmath>

#include "core/check.h"
#include "tests/support/catch.h"

using namespace cbwc;

TEST_CASE("P58: warm-up, cosine and the end") {
  const Schedule s{
      .decline = Decline::cosine, .peak = 1.0, .minimum = 0.1, .warmup = 2, .total = 10};
  const double want[] = {0.5,       1,         1,         0.9657458, 0.8681981, 0.7222075, 0.55,
                         0.3777925, 0.2318019, 0.1342542, 0.1,       0.1,       0.1};
  for (int64_t step = 0; step < 13; ++step) {
    INFO("step " << step);
    CHECK(std::abs(learning_rate(s, step) - want[step]) < 5e-8);  // the table has 7 digits
  }
}

TEST_CASE("warm-up of none and of everything") {
  for (Decline d : {Decline::cosine, Decline::linear, Decline::constant}) {
    INFO(decline_name(d));
    const Schedule none{.decline = d, .peak = 2.0, .minimum = 0.5, .warmup = 0, .total = 4};
    CHECK(learning_rate(none, 0) == 2.0);
    CHECK(learning_rate(none, 100) == (d == Decline::constant ? 2.0 : 0.5));
    const Schedule all{.decline = d, .peak = 2.0, .minimum = 0.5, .warmup = 4, .total = 4};
    CHECK(learning_rate(all, 0) == 0.5);
    CHECK(learning_rate(all, 3) == 2.0);
    CHECK(learning_rate(all, 4) == (d == Decline::constant ? 2.0 : 0.5));
    CHECK(parse_decline(decline_name(d)) == d);
  }
  const Schedule line{.decline = Decline::linear, .peak = 1, .minimum = 0, .warmup = 0, .total = 4};
  CHECK(learning_rate(line, 1) == 0.75);
  CHECK(learning_rate(line, 3) == 0.25);
}

TEST_CASE("it never rises after the warm-up, and steps may come in any order") {
  const Schedule s{
      .decline = Decline::cosine, .peak = 1.0, .minimum = 0.0, .warmup = 5, .total = 50};
  for (int64_t step = 120; step > 5; --step)
    CHECK(learning_rate(s, step) <= learning_rate(s, step - 1));
}

TEST_CASE("schedules that make no sense are refused") {
  CHECK_THROWS_AS(learning_rate({.warmup = 5, .total = 4}, 0), Error);
  CHECK_THROWS_AS(learning_rate({.warmup = -1, .total = 4}, 0), Error);
  CHECK_THROWS_AS(learning_rate({.total = 0}, 0), Error);
  CHECK_THROWS_AS(learning_rate({.peak = 0.1, .minimum = 0.2}, 0), Error);
  CHECK_THROWS_AS(learning_rate({.peak = std::nan("")}, 0), Error);
  CHECK_THROWS_AS(learning_rate({}, -1), Error);
  CHECK_THROWS_AS(parse_decline("cosin"), Error);
}
