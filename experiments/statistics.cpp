#include "experiments/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"

namespace cbwc {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Few samples make an accuracy coarse: two seeds may differ by the very same amount by chance, and
// an interval of width 0 would then call anything supported.
bool has_spread(const MeanInterval& m) {
  constexpr double kRounding = 1e-12;
  return m.n >= 2 && m.sd > kRounding * std::fabs(m.mean);
}

// Continued fraction of the incomplete beta function (Numerical Recipes 6.4, Lentz's method).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kEps = 1e-15;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  if (std::fabs(d) < kTiny) d = kTiny;
  d = 1 / d;
  double h = d;
  for (int m = 1; m <= 500; ++m) {
    for (int odd = 0; odd < 2; ++odd) {
      const double term = odd ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
                              : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
      d = 1 + term * d;
      c = 1 + term / c;
      if (std::fabs(d) < kTiny) d = kTiny;
      if (std::fabs(c) < kTiny) c = kTiny;
      d = 1 / d;
      h *= d * c;
      if (odd && std::fabs(d * c - 1) < kEps) return h;
    }
  }
  return h;
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

double student_t_975(int64_t degrees) {
  CBWC_CHECK(degrees >= 1, "student_t_975: expected at least one degree of freedom");
  const double nu = static_cast<double>(degrees);
  // P(|T| > t) = I_{nu / (nu + t^2)}(nu / 2, 1 / 2) falls with t.
  double low = 0, high = 13;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double t = 0.5 * (low + high);
    (incomplete_beta(nu / 2, 0.5, nu / (nu + t * t)) > 0.05 ? low : high) = t;
  }
  return 0.5 * (low + high);
}

MeanInterval mean_interval(const std::vector<double>& values) {
  MeanInterval out;
  out.n = static_cast<int64_t>(values.size());
  out.mean = out.sd = out.ci95 = kNan;
  if (values.empty()) return out;
  const double n = static_cast<double>(out.n);
  double sum = 0;
  for (const double v : values) sum += v;
  out.mean = sum / n;
  if (out.n < 2) return out;
  double squares = 0;
  for (const double v : values) squares += (v - out.mean) * (v - out.mean);
  out.sd = std::sqrt(squares / (n - 1));
  out.ci95 = student_t_975(out.n - 1) * out.sd / std::sqrt(n);
  return out;
}

MeanInterval scaled(MeanInterval value, double scale) {
  value.mean *= scale;
  value.sd *= scale;
  value.ci95 *= scale;
  return value;
}

PairedDifference paired_difference(const std::vector<double>& a, const std::vector<double>& b) {
  CBWC_CHECK(a.size() == b.size(), "paired_difference: ", a.size(), " values against ", b.size());
  std::vector<double> differences;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::isfinite(a[i]) && std::isfinite(b[i])) differences.push_back(a[i] - b[i]);
  PairedDifference out;
  out.difference = mean_interval(differences);
  out.supported =
      has_spread(out.difference) && std::fabs(out.difference.mean) > out.difference.ci95;
  return out;
}

std::string verdict_of(const PairedDifference& d, bool higher_is_better) {
  if (d.difference.n == 0) return "no pair of finished runs";
  if (d.difference.n == 1) return "one seed: no interval";
  if (d.difference.mean == 0 && d.difference.sd == 0) return "equal in every seed";
  if (!has_spread(d.difference)) return "no spread to judge by";
  if (!d.supported) return "within noise";
  return (d.difference.mean > 0) == higher_is_better ? "supported: better" : "supported: worse";
}

PairedRatio paired_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  CBWC_CHECK(a.size() == b.size(), "paired_ratio: ", a.size(), " values against ", b.size());
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] > 0 && b[i] > 0 && std::isfinite(a[i]) && std::isfinite(b[i]))
      ratios.push_back(a[i] / b[i]);
  std::sort(ratios.begin(), ratios.end());
  // The k-th ratio from either end is off the median with the chance of fewer than k heads in n
  // throws; k grows as long as that stays within 2.5 %.
  const int64_t n = static_cast<int64_t>(ratios.size());
  double exactly = std::exp2(-static_cast<double>(n)), fewer = exactly;
  int64_t k = 0;
  while (k < n && fewer <= 0.025) {
    ++k;
    exactly *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    fewer += exactly;
  }
  if (k == 0) return {n, median(ratios), kNan, kNan};
  return {n, median(ratios), ratios[static_cast<size_t>(k - 1)],
          ratios[static_cast<size_t>(n - k)]};
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return kNan;
  std::sort(values.begin(), values.end());
  const double at = std::clamp(q, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const size_t low = static_cast<size_t>(at), high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

std::string format_ratio(const PairedRatio& r) {
  return fmt::format("{:.4f} [{:.4f}, {:.4f}]", r.ratio, r.low, r.high);
}

std::string format_difference(const MeanInterval& value, int digits) {
  if (value.n == 0) return "n/a";
  std::string mean = fmt::format("{:+.{}f}", value.mean, digits);
  if (mean.find_first_of("123456789") == std::string::npos) mean.erase(0, 1);  // 0 has no sign
  if (value.n == 1) return mean + " (n/a)";
  return fmt::format("{} ± {:.{}f}", mean, value.ci95, digits);
}

std::string format_interval(const MeanInterval& value, int digits) {
  if (value.n == 0) return "n/a";
  if (value.n == 1) return fmt::format("{:.{}f} (n/a)", value.mean, digits);
  return fmt::format("{:.{}f} ± {:.{}f}", value.mean, digits, value.ci95, digits);
}

}  // namespace cbwc
