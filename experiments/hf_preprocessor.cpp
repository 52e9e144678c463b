#include "experiments/hf_preprocessor.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "experiments/json_output.h"

namespace cbwc {
namespace {

using nlohmann::json;

bool flag(const json& j, const char* name, const std::string& file, bool when_absent = true) {
  const json value = j.value(name, json(when_absent));
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

// "shortest_edge", or a square's side given as a number or as height and width.
int64_t side_of(const json& value, const char* name, const std::string& file, bool& shortest) {
  shortest = value.is_object() && value.contains("shortest_edge");
  json side = value;
  if (value.is_object()) side = value.value(shortest ? "shortest_edge" : "height", json());
  const bool square = !value.is_object() || shortest || value.value("width", json()) == side;
  CBWC_CHECK(side.is_number_integer() && side.get<int64_t>() >= 1 && square, file, ": ", name,
             " is ", value.dump(), ", expected a square (a number of pixels, or height and width)",
             " or shortest_edge");
  return side;
}

ResizeFilter filter_of(const json& j, const std::string& file) {
  const json resample = j.value("resample", json(2));
  CBWC_CHECK(resample == 2 || resample == 3, file, ": resample is ", resample.dump(),
             ", expected 2 (bilinear) or 3 (bicubic)");
  return resample == 2 ? ResizeFilter::bilinear : ResizeFilter::bicubic;
}

ImageSizing read_sizing(const json& j, const std::string& file, int64_t image) {
  ImageSizing sizing{image};
  if (flag(j, "do_resize", file)) {
    if (j.contains("size")) sizing.side = side_of(j["size"], "size", file, sizing.keep_aspect);
    sizing.filter = filter_of(j, file);
  }
  int64_t cut = sizing.side;
  if (flag(j, "do_center_crop", file, false) && j.contains("crop_size")) {
    bool unused = false;
    cut = side_of(j["crop_size"], "crop_size", file, unused);
  } else {
    CBWC_CHECK(!sizing.keep_aspect, file,
               ": size is shortest_edge, but nothing cuts a square out of the image");
  }
  CBWC_CHECK(cut == image && sizing.side >= image, file, ": makes images of ",
             std::min(cut, sizing.side), " pixels, the model reads ", image);
  return sizing;
}

void read_normalisation(const json& preprocessor, const std::string& file, InputRules& rules) {
  // transformers' pixels are 0 to 255 times the factor, ours are 0 to 1.
  double factor = 1.0 / 255;
  if (preprocessor.contains("rescale_factor"))
    factor = checked(preprocessor["rescale_factor"], "rescale_factor", true, file);
  const double unit = 255 * (flag(preprocessor, "do_rescale", file) ? factor : 1.0);
  const auto count = static_cast<size_t>(rules.channels);
  rules.mean.assign(count, 0.0);
  rules.deviation.assign(count, 1.0);
  if (flag(preprocessor, "do_normalize", file)) {
    rules.mean = per_channel(preprocessor, "image_mean", false, rules.channels, file);
    rules.deviation = per_channel(preprocessor, "image_std", true, rules.channels, file);
  }
  for (size_t c = 0; c < count; ++c) {
    rules.mean[c] /= unit;
    rules.deviation[c] /= unit;
  }
}

}  // namespace

json read_preprocessor(const std::string& folder) {
  const std::string file = (std::filesystem::path(folder) / kPreprocessorFile).string();
  return std::filesystem::exists(file) ? read_json(file) : json();
}

void read_image_rules(const json& preprocessor, const std::string& file, int64_t image,
                      InputRules& rules) {
  CBWC_CHECK(preprocessor.is_object(), file, ": not a JSON object");
  read_normalisation(preprocessor, file, rules);
  rules.sizing = read_sizing(preprocessor, file, image);
}

}  // namespace cbwc
