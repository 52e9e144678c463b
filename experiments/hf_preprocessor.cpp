#include "experiments/hf_preprocessor.h"

#include <cmath>
#include <filesystem>

#include "experiments/json_output.h"

namespace cbwc {
namespace {

using nlohmann::json;

bool flag(const json& j, const char* name, const std::string& file) {
  const json value = j.value(name, json(true));
  CBWC_CHECK(value.is_boolean(), file, ": ", name, " is ", value.dump(),
             ", expected true or false");
  return value;
}

double checked(const json& value, const char* name, bool positive, const std::string& file) {
  const bool number = value.is_number() && std::isfinite(value.get<double>());
  CBWC_CHECK(number && (!positive || value.get<double>() > 0), file, ": ", name, " holds ",
             value.dump(), ", expected ", positive ? "numbers above 0" : "numbers");
  return value;
}

// One of each channel; a single number is of all of them.
std::vector<double> per_channel(const json& j, const char* name, bool positive, int64_t channels,
                                const std::string& file) {
  CBWC_CHECK(j.contains(name), file, ": ", name, " is missing, and do_normalize is not false");
  const json& value = j[name];
  const auto count = static_cast<size_t>(channels);
  if (!value.is_array()) return std::vector<double>(count, checked(value, name, positive, file));
  CBWC_CHECK(value.size() == count, file, ": ", name, " has ", value.size(),
             " numbers, the model reads ", channels, " channels");
  std::vector<double> out;
  for (const json& each : value) out.push_back(checked(each, name, positive, file));
  return out;
}

}  // namespace

json read_preprocessor(const std::string& folder) {
  const std::string file = (std::filesystem::path(folder) / kPreprocessorFile).string();
  return std::filesystem::exists(file) ? read_json(file) : json();
}

void read_normalisation(const json& preprocessor, const std::string& file, int64_t channels,
                        InputRules& rules) {
  CBWC_CHECK(preprocessor.is_object(), file, ": not a JSON object");
  // transformers' pixels are 0 to 255 times the factor, ours are 0 to 1.
  double factor = 1.0 / 255;
  if (preprocessor.contains("rescale_factor"))
    factor = checked(preprocessor["rescale_factor"], "rescale_factor", true, file);
  const double unit = 255 * (flag(preprocessor, "do_rescale", file) ? factor : 1.0);
  const auto count = static_cast<size_t>(channels);
  rules.mean.assign(count, 0.0);
  rules.deviation.assign(count, 1.0);
  if (flag(preprocessor, "do_normalize", file)) {
    rules.mean = per_channel(preprocessor, "image_mean", false, channels, file);
    rules.deviation = per_channel(preprocessor, "image_std", true, channels, file);
  }
  for (size_t c = 0; c < count; ++c) {
    rules.mean[c] /= unit;
    rules.deviation[c] /= unit;
  }
}

}  // namespace cbwc
