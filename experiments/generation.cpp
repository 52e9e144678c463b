#include "experiments/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"

namespace cbwc {
namespace {

// Rising ids. Only the k likeliest are set apart, nothing more is sorted.
std::vector<int32_t> candidates(const std::vector<double>& logits, int64_t top_k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (top_k == 0 || top_k >= std::ssize(ids)) return ids;
  std::nth_element(ids.begin(), ids.begin() + top_k, ids.end(), [&](int32_t a, int32_t b) {
    const double x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  ids.resize(static_cast<size_t>(top_k));
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace

int32_t draw_token(const std::vector<double>& logits, const GenerationOptions& options, Rng& rng) {
  for (const double x : logits)
    if (std::isnan(x)) throw RunError("generate: the model's logits are not numbers");
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0) return static_cast<int32_t>(likeliest - logits.begin());
  const std::vector<int32_t> ids = candidates(logits, options.top_k);
  std::vector<double> sums;
  sums.reserve(ids.size());
  double sum = 0;
  for (const int32_t id : ids) {
    sum += std::exp((logits[static_cast<size_t>(id)] - *likeliest) / options.temperature);
    sums.push_back(sum);
  }
  if (!std::isfinite(sum)) throw RunError("generate: the model's logits are not finite");
  const auto at = std::upper_bound(sums.begin(), sums.end(), rng.uniform() * sum);
  return ids[std::min(static_cast<size_t>(at - sums.begin()), ids.size() - 1)];
}

std::vector<int32_t> generate(Model& model, const std::vector<int32_t>& prompt,
                              const GenerationOptions& options) {
  CBWC_CHECK(!prompt.empty() && options.context > 0,
             "generate: it needs a token to go on from and a context, got ", prompt.size(),
             " tokens and a context of ", options.context);
  std::vector<int32_t> ids = prompt;
  KvCache cache =
      model.make_cache(1, std::min(options.context, std::ssize(prompt) + options.tokens));
  Rng rng(options.seed, "generate");
  for (int64_t i = 0; i < options.tokens; ++i) {
    const int64_t first = std::max<int64_t>(0, std::ssize(ids) - options.context);
    if (first > 0) cache.clear();
    const std::vector<int32_t> fresh(ids.begin() + first + cache.length, ids.end());
    const Tensor next = model.next_logits(Tensor::from(fresh, {1, std::ssize(fresh)}), cache);
    std::vector<double> logits = next.to(DType::f64).to_vector<double>();
    if (options.vocab > 0) logits.resize(static_cast<size_t>(options.vocab));
    ids.push_back(draw_token(logits, options, rng));
    if (ids.back() == options.end) break;
  }
  return {ids.begin() + std::ssize(prompt), ids.end()};
}

}  // namespace cbwc
