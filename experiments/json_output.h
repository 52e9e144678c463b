// JSON that scripts rely on: non-finite numbers are the strings "nan", "inf", "-inf".
#pragma once
#include <string>

#include "core/dtype.h"
#include "data/json.h"
#include "experiments/config.h"

namespace cbwc {

nlohmann::json json_number(double value);              // a number or one of the three strings
double number_from_json(const nlohmann::json& value);  // the inverse; null gives nan
nlohmann::json machine_json(Device device);            // cpu, threads, blas, blas_core, device
nlohmann::json config_json(const Config& config);      // {"run": {...}, "model": {...}, ...}
std::string config_digest(const Config& config);       // 16 hex digits over the complete TOML
void write_text_file(const std::string& path, const std::string& text);  // whole or not at all
void write_json(const std::string& path, const nlohmann::json& value);
nlohmann::json read_json(const std::string& path);  // Error naming the file

}  // namespace cbwc
