#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include "experiments/json_output.h"
#include "tests/support/catch.h"

using namespace cbwc;

TEST_CASE("non-finite numbers are strings") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  CHECK(json_number(NAN).dump() == "\"nan\"");
  CHECK(json_number(kInf).dump() == "\"inf\"");
  CHECK(json_number(-kInf).dump() == "\"-inf\"");
  CHECK(json_number(0.1).dump() == "0.1");
  for (const double value : {0.1, kInf, -kInf})
    CHECK(number_from_json(json_number(value)) == value);
  CHECK(std::isnan(number_from_json(json_number(NAN))));
}

TEST_CASE("the config object holds every key with its type") {
  const nlohmann::json config = config_json(Config{});
  for (const ConfigKey& key : config_keys()) {
    INFO(key.full());
    CHECK(config[key.section].contains(key.name));
  }
  CHECK(config["run"]["steps"].is_number_integer());
  CHECK(config["optim"]["lr"].is_number_float());
  CHECK(config["model"]["norm_bias"].is_boolean());
  CHECK(config["compare"]["arms"].size() == 3);
}

TEST_CASE("the machine object names what a measurement depends on") {
  const nlohmann::json machine = machine_json(Device::cpu);
  for (const char* key : {"cpu", "threads", "blas", "blas_core", "device"})
    CHECK(machine.contains(key));
  CHECK(machine["threads"].get<int>() >= 1);
}

TEST_CASE("the digest follows the values") {
  Config config;
  const std::string before = config_digest(config);
  CHECK(before.size() == 16);
  config.optim.lr *= 2;
  CHECK(config_digest(config) != before);
}

TEST_CASE("files are written whole and unreadable JSON is named") {
  namespace fs = std::filesystem;
  const fs::path dir = fs::temp_directory_path() / ("cbwc_json_" + std::to_string(std::rand()));
  fs::create_directories(dir);
  const std::string path = (dir / "a.json").string();
  write_json(path, {{"text", "cut \xe2\x82"}});
  CHECK(read_json(path).contains("text"));
  CHECK(std::distance(fs::directory_iterator(dir), fs::directory_iterator()) == 1);
  std::ofstream(path) << "{";
  CHECK_THROWS_AS(read_json(path), Error);
  CHECK_THROWS_AS(read_json((dir / "none.json").string()), Error);
  CHECK_THROWS_AS(write_json((dir / "no" / "such" / "folder.json").string(), {}), Error);
  fs::remove_all(dir);
}
