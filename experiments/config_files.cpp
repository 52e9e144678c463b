// Where configs lie, how a Config is written, and the points of a sweep.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "core/check.h"
#include "core/text.h"
#include "data/text.h"
#include "experiments/config.h"

namespace cbwc {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> config_folders() {
  std::vector<fs::path> folders = {fs::path(CBWC_SOURCE_DIR) / "experiments" / "configs"};
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  if (!ignored) folders.push_back(program.parent_path() / "configs");
  return folders;
}

std::string number(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string toml_value(const KeyField& field) {
  struct Print {
    std::string operator()(bool* v) const { return *v ? "true" : "false"; }
    std::string operator()(int64_t* v) const { return fmt::format("{}", *v); }
    std::string operator()(double* v) const { return number(*v); }
    std::string operator()(std::string* v) const { return toml_text(*v); }
    std::string operator()(std::vector<int64_t>* v) const {
      return fmt::format("[{}]", fmt::join(*v, ", "));
    }
    std::string operator()(std::vector<std::string>* v) const {
      std::vector<std::string> all;
      for (const std::string& one : *v) all.push_back(toml_text(one));
      return fmt::format("[{}]", fmt::join(all, ", "));
    }
    std::string operator()(std::vector<SweepEntry>* v) const {
      std::vector<std::string> tables;
      for (const SweepEntry& entry : *v) {
        std::vector<std::string> keys;
        for (const auto& [key, values] : entry)
          keys.push_back(fmt::format("{} = [{}]", toml_text(key), fmt::join(values, ", ")));
        tables.push_back(fmt::format("{{ {} }}", fmt::join(keys, ", ")));
      }
      return fmt::format("[{}]", fmt::join(tables, ", "));
    }
  };
  return std::visit(Print{}, field);
}

// The cross product of one entry's keys, the first key varying slowest.
std::vector<Variant> cross(const SweepEntry& entry) {
  std::vector<Variant> points = {Variant{}};
  for (const auto& [key, values] : entry) {
    const std::string name = key.substr(key.find('.') + 1);
    std::vector<Variant> next;
    for (const Variant& point : points)
      for (const std::string& value : values) {
        std::string plain = value;
        plain.erase(std::remove(plain.begin(), plain.end(), '"'), plain.end());
        Variant more = point;
        more.sets.push_back(key + "=" + value);
        more.label += (more.label.empty() ? "" : ", ") + name + " " + plain;
        std::string part = name + "_" + plain;
        for (char& c : part)
          if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '_';
        more.name += (more.name.empty() ? "" : "-") + part;
        next.push_back(more);
      }
    points = next;
  }
  return points;
}

}  // namespace

std::string toml_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      out += c;
  }
  return out + "\"";
}

std::vector<std::string> shipped_configs() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::path& folder : config_folders())
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string find_config(const std::string& path_or_name) {
  if (fs::is_regular_file(path_or_name)) return path_or_name;
  if (path_or_name.find('/') == std::string::npos && !path_or_name.empty())
    for (const fs::path& folder : config_folders())
      for (const char* ending : {".toml", ""})
        if (const fs::path file = folder / (path_or_name + ending); fs::is_regular_file(file))
          return file.string();
  const std::vector<std::string> shipped = shipped_configs();
  CBWC_CHECK(!fs::is_directory(path_or_name), path_or_name,
             ": is a folder; expected a config file");
  const auto nearest = std::min_element(shipped.begin(), shipped.end(), [&](auto& a, auto& b) {
    return edit_distance(path_or_name, a) < edit_distance(path_or_name, b);
  });
  CBWC_CHECK(nearest == shipped.end() || edit_distance(path_or_name, *nearest) > 3, path_or_name,
             ": no such config file, run or checkpoint; the nearest shipped one is ", *nearest);
  detail::fail(path_or_name, ": no such config file, run or checkpoint; shipped: ",
               fmt::format("{}", fmt::join(shipped, ", ")));
}

std::string config_to_toml(const Config& config) {
  Config copy = config;
  std::string out, section;
  for (const ConfigKey& key : config_keys()) {
    if (key.section != section) {
      out += (section.empty() ? "[" : "\n[") + key.section + "]\n";
      section = key.section;
    }
    const std::string value = toml_value(key.field(copy));
    CBWC_CHECK(invalid_utf8(value) == std::string::npos, key.full(), ": ", printable(value),
               " is not UTF-8, which a config has to be");
    out += key.name + " = " + value + "\n";
  }
  return out;
}

std::vector<Variant> expand_sweep(const Config& config) {
  if (config.compare.sweep.empty()) return {Variant{}};
  std::vector<Variant> all;
  for (const SweepEntry& entry : config.compare.sweep) {
    const std::vector<Variant> points = cross(entry);
    all.insert(all.end(), points.begin(), points.end());
  }
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      CBWC_CHECK(all[i].name != all[j].name, "compare.sweep: the point '", all[i].label,
                 "' appears twice");
  return all;
}

}  // namespace cbwc
