// Means over seeds with 95 % t intervals, and paired differences. Non-finite values are the
// caller's to leave out.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cbwc {

struct MeanInterval {
  int64_t n = 0;
  double mean = 0;          // nan when n = 0
  double sd = 0, ci95 = 0;  // with n - 1; ci95 is the half-width; both nan when n < 2
};
MeanInterval mean_interval(const std::vector<double>& values);
MeanInterval scaled(MeanInterval interval, double factor);

// a[i] - b[i], pairs where both are finite. supported: the interval does not contain 0.
struct PairedDifference {
  MeanInterval difference;
  bool supported = false;
};
PairedDifference paired_difference(const std::vector<double>& a, const std::vector<double>& b);
// What the seeds say about a against b: "supported: better", "supported: worse", "within noise",
// "equal in every seed", "no spread to judge by" (the same difference in every seed), "one seed: no
// interval", "no pair of finished runs". Each interval stands by itself: of twenty that hold
// nothing, one is supported by chance.
std::string verdict_of(const PairedDifference& d, bool higher_is_better);

// How many times a[i] is b[i]: the median over pairs of positive, finite values with an interval
// that holds it with at least 95 % (two of the sorted ratios, by the sign test; a few disturbed
// runs do not move it). low and high are nan when n < 6: so few cannot give 95 %.
struct PairedRatio {
  int64_t n = 0;
  double ratio = 0, low = 0, high = 0;
};
PairedRatio paired_ratio(const std::vector<double>& a, const std::vector<double>& b);
std::string format_ratio(const PairedRatio& r);  // "1.0120 [1.0010, 1.0250]"

double student_t_975(int64_t degrees);                  // 0.975 quantile; degrees >= 1
double quantile(std::vector<double> values, double q);  // linear between ranks; nan when empty
double median(const std::vector<double>& values);

std::string format_difference(const MeanInterval& value, int digits);  // "+0.12 ± 0.30"
std::string format_interval(const MeanInterval& value,
                            int digits);  // "2.310 ± 0.012", "2.310 (n/a)"

}  // namespace cbwc
