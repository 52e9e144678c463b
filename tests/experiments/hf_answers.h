// What import says to the models of tests/fixtures/hf_* when something in them is changed.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "experiments/hf_import.h"
#include "tests/experiments/hf_fixtures.h"
#include "tests/support/catch.h"

namespace cbwc::testing {

using Items = std::vector<SafetensorsItem>;

inline nlohmann::json fixture_config(const std::string& family) {
  return read_json(hf_fixture(family) + "/config.json");
}

inline Items fixture_items(const std::string& family) {
  const Safetensors file(hf_fixture(family));
  Items items;
  for (const Safetensors::Entry& e : file.entries()) items.push_back({e.name, file.read(e)});
  return items;
}

// What import says to this model; "" when it reads it.
inline std::string answer(const nlohmann::json& config, const Items& items,
                          std::vector<std::string>* notes = nullptr,
                          const std::vector<std::string>& allowed = {}) {
  const TemporaryFolder folder;
  write_json(folder.file("config.json"), config);
  write_safetensors(folder.file("model.safetensors"), items);
  const std::string message = message_of<Error>([&] {
    const HfImport m = import_model(folder.path(), allowed);
    if (notes != nullptr) *notes = m.notes;
  });
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

inline std::string with_option(const std::string& family, const std::string& key,
                               const nlohmann::json& value) {
  nlohmann::json config = fixture_config(family);
  config[key] = value;
  return answer(config, fixture_items(family));
}

inline Items without(Items items, const std::string& name) {
  std::erase_if(items, [&](const auto& item) { return item.name == name; });
  return items;
}

inline void check_has(const std::vector<std::string>& lines, const std::string& line) {
  INFO(line);
  CHECK(std::find(lines.begin(), lines.end(), line) != lines.end());
}

}  // namespace cbwc::testing
