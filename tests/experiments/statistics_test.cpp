// The seeds statistic: the values at the end of cases.md.
#include "experiments/statistics.h"

#include <cmath>

#include "tests/support/catch.h"

using namespace cbwc;

namespace {
constexpr double kPrinted = 1e-6;  // the expected values are printed with six decimals
}

TEST_CASE("mean, sd and 95 % half-width over seeds") {
  const MeanInterval three = mean_interval({0.1, 0.2, 0.4});
  CHECK(three.n == 3);
  CHECK(three.mean == Approx(0.233333).margin(kPrinted));
  CHECK(three.sd == Approx(0.152753).margin(kPrinted));
  CHECK(three.ci95 == Approx(0.379458).margin(kPrinted));
  const MeanInterval five = mean_interval({71.2, 71.9, 70.8, 71.5, 71.4});
  CHECK(five.mean == Approx(71.36));
  CHECK(five.ci95 == Approx(0.5013).margin(5e-5));
}

TEST_CASE("quantiles of Student's t") {
  CHECK(student_t_975(1) == Approx(12.706205).margin(kPrinted));
  CHECK(student_t_975(2) == Approx(4.302653).margin(kPrinted));
  CHECK(student_t_975(4) == Approx(2.776445).margin(kPrinted));
  CHECK(student_t_975(30) == Approx(2.042272).margin(kPrinted));
  CHECK(student_t_975(1000000) == Approx(1.959966).margin(kPrinted));
}

TEST_CASE("one seed has no spread") {
  const MeanInterval one = mean_interval({2.5});
  CHECK(one.mean == 2.5);
  CHECK(std::isnan(one.ci95));
  CHECK(format_interval(one, 2) == "2.50 (n/a)");
  CHECK(format_interval(mean_interval({}), 2) == "n/a");
  CHECK(format_interval(mean_interval({0.1, 0.2, 0.4}), 3) == "0.233 ± 0.379");
}

TEST_CASE("paired differences are supported only when the interval leaves out 0") {
  const PairedDifference clear = paired_difference({2.0, 3.0, 4.0}, {1.0, 2.1, 2.9});
  CHECK(clear.supported);
  CHECK(clear.difference.mean == Approx(1.0));
  const PairedDifference noise = paired_difference({2.0, 3.0, 4.0}, {2.1, 2.8, 4.1});
  CHECK_FALSE(noise.supported);
  // A diverged run takes its pair with it; one pair alone supports nothing.
  const PairedDifference one = paired_difference({2.0, NAN}, {1.0, 2.0});
  CHECK(one.difference.n == 1);
  CHECK_FALSE(one.supported);
}

TEST_CASE("the words for what the seeds say") {
  // Differences 1.0, 0.9, 1.1: mean 1, sd 0.1, t_2 0.1 / sqrt 3 = 0.248414.
  const PairedDifference clear = paired_difference({2.0, 3.0, 4.0}, {1.0, 2.1, 2.9});
  CHECK(clear.difference.sd == Approx(0.1));
  CHECK(clear.difference.ci95 == Approx(0.248414).margin(kPrinted));
  CHECK(verdict_of(clear, true) == "supported: better");
  CHECK(verdict_of(clear, false) == "supported: worse");
  CHECK(verdict_of(paired_difference({1.0, 2.1, 2.9}, {2.0, 3.0, 4.0}), false) ==
        "supported: better");
  // Differences 0.1, 0.2, 0.4 with mean 0.233333 lie within 0.379458.
  CHECK(verdict_of(paired_difference({0.1, 0.2, 0.4}, {0, 0, 0}), true) == "within noise");
  CHECK(verdict_of(paired_difference({1.5, 2.5}, {1.5, 2.5}), true) == "equal in every seed");
  // 0.3 - 0.1 and 0.5 - 0.3 differ in their last bits alone.
  const PairedDifference same = paired_difference({0.3, 0.5}, {0.1, 0.3});
  CHECK_FALSE(same.supported);
  CHECK(verdict_of(same, true) == "no spread to judge by");
  CHECK(verdict_of(paired_difference({2.0}, {1.0}), true) == "one seed: no interval");
  CHECK(verdict_of(paired_difference({NAN}, {1.0}), true) == "no pair of finished runs");
  CHECK(format_difference(clear.difference, 2) == "+1.00 ± 0.25");
  CHECK(format_difference(mean_interval({-0.5}), 1) == "-0.5 (n/a)");
  CHECK(format_difference(mean_interval({-1e-9, -2e-9}), 2) == "0.00 ± 0.00");
  CHECK(format_difference(mean_interval({}), 1) == "n/a");
}

TEST_CASE("quantiles") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  CHECK(std::isnan(median({})));
  CHECK(quantile({0, 10}, 0.9) == Approx(9));
}

TEST_CASE("paired ratios: the median, and an interval by the sign test") {
  const auto of = [](std::vector<double> ratios) {
    std::vector<double> a, b;
    for (size_t i = 0; i < ratios.size(); ++i) {
      b.push_back(std::pow(10.0, static_cast<double>(i % 3)));  // a drift that both share
      a.push_back(ratios[i] * b.back());
    }
    return paired_ratio(a, b);
  };
  // Chances of at most k - 1 heads: n = 6: 1/64; n = 9: 10/512 (k = 2), 46/512 would be too many;
  // n = 20: 0.0207 (k = 6).
  const PairedRatio six = of({4, 2, 6, 1, 5, 3});
  CHECK(six.n == 6);
  CHECK(six.ratio == Approx(3.5));
  CHECK(six.low == Approx(1));
  CHECK(six.high == Approx(6));
  const PairedRatio nine = of({9, 8, 7, 6, 5, 4, 3, 2, 1});
  CHECK(nine.ratio == Approx(5));
  CHECK(nine.low == Approx(2));
  CHECK(nine.high == Approx(8));
  std::vector<double> many;
  for (int i = 1; i <= 20; ++i) many.push_back(i);
  CHECK(of(many).low == Approx(6));
  CHECK(of(many).high == Approx(15));
  many[19] = 1e6;  // one disturbed run
  CHECK(of(many).ratio == Approx(10.5));
  CHECK(of(many).high == Approx(15));
  const PairedRatio one = paired_ratio({3, NAN, 0}, {2, 1, 1});
  CHECK(one.n == 1);
  CHECK(one.ratio == Approx(1.5));
  CHECK(std::isnan(one.low));
  CHECK(std::isnan(of({1, 2, 3, 4, 5}).low));
}
