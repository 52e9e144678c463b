#include "experiments/fold_check.h"

#include <algorithm>
#include <cmath>

#include "experiments/json_output.h"
#include "experiments/model_setup.h"
#include "experiments/random_samples.h"
#include "layers/compare.h"

namespace cbwc {
namespace {

constexpr int64_t kSamples = 2, kTokens = 128;

// Of random input: the config's sizes where it says them.
DataShape input_sizes(const Config& config, DataShape shape) {
  if (config.model.vocab > 0) shape.vocab = config.model.vocab;
  if (config.model.classes > 0) shape.classes = config.model.classes;
  return shape;
}

Config shortened(const Config& config) {
  Config c = config;
  c.model.context = std::min(kTokens, config.model.context);
  return c;
}

ModelInput first_of(const DataSplit& split) {
  ModelInput input = input_of(*split.pass(kSamples, 1)->next());
  input.rows = {};  // every position, not the masked ones alone
  return input;
}

}  // namespace

Verification compare_logits(Model& before, Model& after, const ModelInput& values,
                            const std::string& input, double tolerance) {
  const Tensor a = before.logits(values, Context{}).value(),
               b = after.logits(values, Context{}).value();
  Verification v;
  v.input = input;
  v.dtype = dtype_name(a.dtype());
  v.max_rel = relative_difference(a, b);
  const int64_t vocab = a.size(-1);
  v.positions = a.numel() / vocab;
  CBWC_CHECK(v.positions > 0, input, ": has no position to compare the logits of");
  dispatch_float(a.dtype(), "fold", [&](auto zero) {
    const auto *x = a.data<decltype(zero)>(), *y = b.data<decltype(zero)>();
    int64_t agree = 0;
    for (int64_t p = 0; p < v.positions; ++p, x += vocab, y += vocab) {
      bool numbers = true;
      for (int64_t i = 0; i < vocab; ++i) {
        const double difference = std::abs(static_cast<double>(x[i]) - y[i]);
        numbers &= std::isfinite(difference);
        v.max_abs = std::max(v.max_abs, std::isnan(difference) ? HUGE_VAL : difference);
      }
      agree += numbers && std::max_element(x, x + vocab) - x == std::max_element(y, y + vocab) - y;
    }
    v.argmax_agreement = static_cast<double>(agree) / static_cast<double>(v.positions);
  });
  v.passed = v.max_rel <= tolerance;
  return v;
}

nlohmann::json verification_json(const Verification& v) {
  return {{"input", v.input},
          {"dtype", v.dtype},
          {"positions", v.positions},
          {"max_abs_difference", json_number(v.max_abs)},
          {"max_rel_difference", json_number(v.max_rel)},
          {"argmax_agreement", json_number(v.argmax_agreement)},
          {"passed", v.passed}};
}

nlohmann::json verifications_json(const std::vector<Verification>& all) {
  nlohmann::json out = nlohmann::json::array();
  for (const Verification& v : all) out.push_back(verification_json(v));
  return out;
}

FoldInput random_input(const Config& config, const DataShape& shape) {
  const Config c = shortened(config);
  return {"random input", first_of(*split_of(std::make_shared<RandomSamples>(
                              c, input_sizes(config, shape), kSamples, c.model.context, 1)))};
}

FoldInput data_input(const Config& config, const DataShape& shape) {
  CBWC_CHECK(!config.data.file.empty(), "no data.file in the config");
  const TrainingData data = open_data(shortened(config));
  const int64_t channels = input_sizes(config, shape).channels;
  CBWC_CHECK(data.shape.channels == channels, config.data.file, " has images of ",
             data.shape.channels, " channels, the model reads ", channels);
  return {config.data.file, first_of(*data.eval)};
}

}  // namespace cbwc
