#include "experiments/json_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/device_services.h"
#include "core/kernels/blas.h"
#include "core/parallel.h"
#include "data/atomic_file.h"
#include "data/text.h"

namespace cbwc {
namespace fs = std::filesystem;

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

namespace {

bool write_all(int descriptor, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(descriptor, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

}  // namespace

void write_text_file(const std::string& path, const std::string& text) {
  std::error_code ignored;
  // A device or a pipe is written into, never replaced; a link goes on pointing at its file.
  const bool file = !fs::exists(path, ignored) || fs::is_regular_file(path, ignored);
  const fs::path real = file ? fs::canonical(path, ignored) : fs::path();
  const std::string target = real.empty() ? path : real.string(),
                    written = file ? fmt::format("{}.{}.tmp", target, getpid()) : path;
  if (file) remove_dead_temporaries_of(target);
  const int descriptor = open(written.c_str(), O_WRONLY | (file ? O_CREAT | O_TRUNC : 0), 0644);
  CBWC_CHECK(descriptor >= 0, path, ": cannot be written: ", std::strerror(errno));
  bool good = write_all(descriptor, text) && (!file || fsync(descriptor) == 0);
  int problem = errno;
  if (close(descriptor) != 0 && good) good = false, problem = errno;
  if (good && (!file || std::rename(written.c_str(), target.c_str()) == 0)) return;
  if (good) problem = errno;
  if (file) unlink(written.c_str());
  throw RunError(path + ": cannot be written: " + std::strerror(problem));
}

void write_json(const std::string& path, const json& value) {
  // Bytes that are not UTF-8 (a generated text cut inside a character) are replaced, not fatal.
  write_text_file(path, value.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

json read_json(const std::string& path) {
  json value = json::parse(read_file(path), nullptr, false);
  CBWC_CHECK(!value.is_discarded(), path, ": not a JSON file");
  return value;
}

}  // namespace cbwc
