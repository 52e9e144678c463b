#include "experiments/json_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "core/device_services.h"
#include "core/kernels/blas.h"
#include "core/parallel.h"

namespace cbwc {

using nlohmann::json;

json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double number_from_json(const json& value) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (value.is_number()) return value.get<double>();
  if (value == "inf") return kInf;
  if (value == "-inf") return -kInf;
  return std::numeric_limits<double>::quiet_NaN();
}

static std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(": ") + 2);
  return "unknown";
}

json machine_json(Device device) {
  const BlasInfo blas = blas_info();
  return {{"cpu", cpu_name()},
          {"threads", threads()},
          {"blas", blas.library},
          {"blas_core", blas.kernels},
          {"device", device == Device::cuda ? cuda::device_name() : "cpu"}};
}

json config_json(const Config& config) {
  Config copy = config;
  json out = json::object();
  for (const ConfigKey& key : config_keys())
    std::visit(
        [&](auto* value) {
          using Type = std::decay_t<decltype(*value)>;
          json& to = out[key.section][key.name];
          if constexpr (std::is_same_v<Type, double>)
            to = json_number(*value);
          else
            to = *value;
        },
        key.field(copy));
  return out;
}

std::string config_digest(const Config& config) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a, 64 bits
  for (const char c : config_to_toml(config))
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

void write_text_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp" + std::to_string(getpid());
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  CBWC_CHECK(file >= 0, path, ": cannot be written: ", std::strerror(errno));
  size_t done = 0;
  bool good = true;
  while (good && done < text.size()) {
    const ssize_t wrote = write(file, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    good = wrote > 0;
    if (good) done += static_cast<size_t>(wrote);
  }
  good = good && fsync(file) == 0;
  int problem = errno;
  if (close(file) != 0 && good) good = false, problem = errno;
  if (good && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  if (good) problem = errno;
  unlink(temporary.c_str());
  throw RunError(path + ": cannot be written: " + std::strerror(problem));
}

void write_json(const std::string& path, const json& value) {
  // Bytes that are not UTF-8 (a generated text cut inside a character) are replaced, not fatal.
  write_text_file(path, value.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

json read_json(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  CBWC_CHECK(in, path, ": cannot be read");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  json value = json::parse(text, nullptr, false);
  CBWC_CHECK(!value.is_discarded(), path, ": not a JSON file");
  return value;
}

}  // namespace cbwc
