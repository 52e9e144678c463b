#include "experiments/config.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/check.h"
#include "core/text.h"
#include "data/text.h"

namespace cbwc {
namespace {

namespace fs = std::filesystem;

const ConfigKey* find_key(const std::string& section, const std::string& name) {
  for (const ConfigKey& key : config_keys())
    if (key.section == section && key.name == name) return &key;
  return nullptr;
}

bool is_section(const std::string& name) {
  return std::any_of(config_keys().begin(), config_keys().end(),
                     [&](const ConfigKey& key) { return key.section == name; });
}

std::string section_list() {
  std::string list;
  for (const ConfigKey& key : config_keys())
    if (list.find(key.section) == std::string::npos)
      list += (list.empty() ? "" : ", ") + key.section;
  return list;
}

[[noreturn]] void fail_unknown(const std::string& where, const std::string& section,
                               const std::string& name) {
  const ConfigKey* best = nullptr;
  double best_score = 0;
  for (const ConfigKey& key : config_keys()) {
    // A name that exists elsewhere means a wrong section; a slip in this section comes next.
    double score = static_cast<double>(edit_distance(name, key.name));
    if (!key.alias.empty())
      score = std::min(score, static_cast<double>(edit_distance(name, key.alias)));
    if (key.section != section) score += 0.5;
    if (!best || score < best_score) best = &key, best_score = score;
  }
  const std::string asked = section.empty() ? name : section + "." + name;
  if (best->name == name)
    detail::fail(where, ": unknown key '", asked, "': '", name, "' belongs in section [",
                 best->section, "]");
  detail::fail(where, ": unknown key '", asked, "': the nearest known one is '", best->name,
               "' in section [", best->section, "]");
}

std::string type_name(const KeyField& field) {
  constexpr const char* kNames[] = {"boolean",          "integer",      "number",        "text",
                                    "list of integers", "list of text", "list of tables"};
  return kNames[field.index()];
}

std::string node_type(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

// One value of a key, with everything a message needs.
struct Reader {
  const ConfigKey& key;
  std::string where;

  [[noreturn]] void fail_type(const char* expected, const toml::node& node) const {
    detail::fail(where, ": ", key.full(), ": expected ", expected, ", got ", node_type(node));
  }
  void check_range(double value) const {
    if (key.min == key.max) return;
    const bool inside = value <= key.max && (key.above_min ? value > key.min : value >= key.min);
    CBWC_CHECK(inside, where, ": ", key.full(), ": expected a value ",
               key.above_min ? "above " : "of at least ", fmt::format("{}", key.min),
               std::isfinite(key.max) ? fmt::format(" and at most {}", key.max) : "", ", got ",
               fmt::format("{}", value));
  }
  double number(const toml::node& node) const {
    double value = 0;
    if (node.is_floating_point())
      value = *node.value<double>();
    else if (node.is_integer())
      value = static_cast<double>(*node.value<int64_t>());
    else
      fail_type("a number", node);
    CBWC_CHECK(std::isfinite(value), where, ": ", key.full(), ": expected a finite number");
    check_range(value);
    return value;
  }
  int64_t integer(const toml::node& node) const {
    if (node.is_integer()) {
      const int64_t value = *node.value<int64_t>();
      check_range(static_cast<double>(value));
      return value;
    }
    if (!node.is_floating_point()) fail_type("an integer", node);
    const double value = *node.value<double>();
    CBWC_CHECK(std::isfinite(value) && value == std::floor(value) && std::fabs(value) < 9e15, where,
               ": ", key.full(), ": expected an integer, got ", fmt::format("{}", value));
    check_range(value);
    return static_cast<int64_t>(value);
  }
  std::string text(const toml::node& node) const {
    if (!node.is_string()) fail_type("text", node);
    std::string value = *node.value<std::string>();
    if (key.choices.empty()) return value;
    const auto& all = key.choices;
    CBWC_CHECK(std::find(all.begin(), all.end(), value) != all.end(), where, ": ", key.full(),
               ": expected one of ", fmt::format("{}", fmt::join(all, ", ")), "; got '", value,
               "'");
    return value;
  }
  const toml::array& list(const toml::node& node, const char* expected) const {
    if (!node.is_array()) fail_type(expected, node);
    return *node.as_array();
  }
  SweepEntry sweep_entry(const toml::node& node) const;
};

std::string value_text(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) {
    using Type = std::decay_t<decltype(value)>;
    if constexpr (toml::is_floating_point<Type>)
      out << fmt::format("{}", *value);  // the shortest text that reads back the same
    else if constexpr (toml::is_string<Type>)
      out << toml_text(*value);
    else if constexpr (!toml::is_table<Type> && !toml::is_array<Type>)
      out << toml::node_view<const toml::node>(value);
  });
  return out.str();
}

SweepEntry Reader::sweep_entry(const toml::node& node) const {
  if (!node.is_table()) fail_type("a table {\"section.key\" = [values]}", node);
  SweepEntry entry;
  for (const auto& [name, values] : *node.as_table()) {
    const std::string full(name.str());
    const size_t dot = full.find('.');
    CBWC_CHECK(dot != std::string::npos, where, ": ", key.full(), ": expected a quoted key like ",
               "\"model.dropout\", got '", full, "'");
    const std::string section = full.substr(0, dot), rest = full.substr(dot + 1);
    if (!find_key(section, rest)) fail_unknown(where, section, rest);
    CBWC_CHECK(section == "model" || section == "optim" || section == "data", where, ": ",
               key.full(), ": only keys of model, data and optim can vary, not '", full, "'");
    CBWC_CHECK(full != "model.norm", where, ": ", key.full(),
               ": model.norm is set by compare.arms, it cannot vary here");
    auto& texts = entry[full];
    if (const toml::array* all = values.as_array())
      for (const toml::node& value : *all) texts.push_back(value_text(value));
    else
      texts.push_back(value_text(values));
    CBWC_CHECK(!texts.empty(), where, ": ", key.full(), ": '", full, "' has no values");
    for (const std::string& text : texts)
      CBWC_CHECK(!text.empty(), where, ": ", key.full(), ": '", full,
                 "': expected plain values, not lists or tables");
  }
  CBWC_CHECK(!entry.empty(), where, ": ", key.full(), ": an empty table");
  return entry;
}

template <class T>
void check_list(const std::vector<T>& values, const Reader& reader) {
  CBWC_CHECK(!values.empty() || reader.key.may_be_empty, reader.where, ": ", reader.key.full(),
             ": expected at least one");
  const bool distinct = std::set<T>(values.begin(), values.end()).size() == values.size();
  CBWC_CHECK(distinct || reader.key.repeats, reader.where, ": ", reader.key.full(),
             ": the same value twice");
}

void set_value(Config& config, const ConfigKey& key, const toml::node& node,
               const std::string& where) {
  const Reader reader{key, where};
  const KeyField field = key.field(config);
  if (auto* to = std::get_if<bool*>(&field)) {
    if (!node.is_boolean()) reader.fail_type("a boolean (true or false)", node);
    **to = *node.value<bool>();
  } else if (auto* to = std::get_if<int64_t*>(&field)) {
    **to = reader.integer(node);
  } else if (auto* to = std::get_if<double*>(&field)) {
    **to = reader.number(node);
  } else if (auto* to = std::get_if<std::string*>(&field)) {
    **to = reader.text(node);
  } else if (auto* to = std::get_if<std::vector<int64_t>*>(&field)) {
    (*to)->clear();
    for (const toml::node& one : reader.list(node, "a list of integers"))
      (*to)->push_back(reader.integer(one));
    check_list(**to, reader);
  } else if (auto* to = std::get_if<std::vector<std::string>*>(&field)) {
    (*to)->clear();
    for (const toml::node& one : reader.list(node, "a list of text"))
      (*to)->push_back(reader.text(one));
    check_list(**to, reader);
  } else if (auto* to = std::get_if<std::vector<SweepEntry>*>(&field)) {
    (*to)->clear();
    for (const toml::node& one : reader.list(node, "a list of tables"))
      (*to)->push_back(reader.sweep_entry(one));
  }
  config.where[key.full()] = where;
}

void set_text(Config& config, const std::string& set) {
  const std::string where = "--set " + set;
  const size_t equals = set.find('='), dot = set.find('.');
  CBWC_CHECK(equals != std::string::npos && dot < equals, where, ": expected section.key=value");
  const std::string section = set.substr(0, dot), name = set.substr(dot + 1, equals - dot - 1),
                    value = set.substr(equals + 1);
  const ConfigKey* key = find_key(section, name);
  if (!key) fail_unknown(where, section, name);
  CBWC_CHECK(value.find('\n') == std::string::npos, where, ": expected one line");
  toml::table table;
  try {
    table = toml::parse("v = " + value);
  } catch (const toml::parse_error& e) {
    // A bare word is text; so is a path given to a key that holds text.
    const bool word = !value.empty() && (std::isalpha(static_cast<unsigned char>(value[0])) != 0);
    const bool holds_text = std::holds_alternative<std::string*>(key->field(config));
    CBWC_CHECK((word || holds_text) && value.find('"') == std::string::npos, where, ": ",
               key->full(), ": not a TOML value: ", e.description());
    table.insert("v", value);
  }
  set_value(config, *key, *table.get("v"), where);
}

std::string where_of(const Config& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (auto it = config.where.find(key); it != config.where.end()) return it->second + ": ";
  return "";
}

void check_heads(const Config& config) {
  const auto& m = config.model;
  if (m.family != "swin") {
    const auto turned = static_cast<int64_t>(m.rotary * static_cast<double>(m.dim / m.heads));
    CBWC_CHECK(m.family != "phi" || turned % 2 == 0, where_of(config, {"model.rotary"}),
               "model.rotary turns ", turned, " of a head's ", m.dim / m.heads,
               " channels, expected an even number (0.5 turns half of them)");
    CBWC_CHECK(m.dim % m.heads == 0, where_of(config, {"model.heads", "model.dim"}), "model.dim (",
               m.dim, ") must be a multiple of model.heads (", m.heads, ")");
    return;
  }
  CBWC_CHECK(m.depths.size() == m.stage_heads.size(),
             where_of(config, {"model.stage_heads", "model.depths"}), "model.depths has ",
             m.depths.size(), " stages, model.stage_heads ", m.stage_heads.size());
  int64_t dim = m.dim;
  for (const int64_t heads : m.stage_heads) {
    CBWC_CHECK(dim % heads == 0, where_of(config, {"model.stage_heads", "model.dim"}),
               "the width of a stage (", dim, ") must be a multiple of its model.stage_heads (",
               heads, ")");
    dim *= 2;
  }
}

// A simple model must be able to read what the config's own model reads.
void check_baselines(const Config& config) {
  const auto& m = config.model;
  const bool images = m.family == "vit" || m.family == "swin";
  const bool texts = m.family == "bert" && m.task == "classification";
  for (const std::string& name : config.compare.baseline_models) {
    CBWC_CHECK(name == "bag_of_words" ? texts : images,
               where_of(config, {"compare.baseline_models"}), "compare.baseline_models: ", name,
               " is for ", name == "bag_of_words" ? "a bert that classifies texts" : "images",
               ", the model is of family ", m.family);
  }
}

void check_baseline(const Config& config) {
  const auto& arms = config.compare.arms;
  CBWC_CHECK(
      arms.empty() || std::find(arms.begin(), arms.end(), config.compare.baseline) != arms.end(),
      where_of(config, {"compare.baseline", "compare.arms"}), "compare.baseline is ",
      config.compare.baseline, ", which compare.arms does not have");
}

void check_together(const Config& config) {
  check_baseline(config);
  check_baselines(config);
  check_family_keys(config);
  check_heads(config);
  CBWC_CHECK(config.optim.warmup <= config.run.steps,
             where_of(config, {"run.steps", "optim.warmup"}), "optim.warmup (", config.optim.warmup,
             ") must be at most run.steps (", config.run.steps, ")");
  CBWC_CHECK(config.run.early_stop_metric != "val_loss" || config.run.eval_every > 0,
             where_of(config, {"run.early_stop_metric"}),
             "run.early_stop_metric = \"val_loss\" needs run.eval_every above 0");
}

void check_sweep(const Config& config) {
  Config plain = config;
  plain.compare.sweep.clear();
  for (const Variant& variant : expand_sweep(config)) {
    try {
      apply_sets(plain, variant.sets);
    } catch (const Error& e) {
      detail::fail(where_of(config, {"compare.sweep"}), "compare.sweep: ", e.what());
    }
  }
}

}  // namespace

void check_ranges(Config config, const std::string& where) {
  for (const ConfigKey& key : config_keys()) {
    const Reader reader{key, where};
    const KeyField field = key.field(config);
    if (auto* integer = std::get_if<int64_t*>(&field))
      reader.check_range(static_cast<double>(**integer));
    else if (auto* number = std::get_if<double*>(&field))
      reader.check_range(**number);
    else if (auto* list = std::get_if<std::vector<int64_t>*>(&field))
      for (const int64_t each : **list) reader.check_range(static_cast<double>(each));
  }
}

Config apply_sets(Config config, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) set_text(config, set);
  check_together(config);
  return config;
}

Config parse_config(const std::string& toml, const std::string& file,
                    const std::vector<std::string>& sets) {
  toml::table root;
  try {
    root = toml::parse(toml, file);
  } catch (const toml::parse_error& e) {
    detail::fail(file, ":", e.source().begin.line, ": ", e.description());
  }
  Config config;
  for (const auto& [section_key, node] : root) {
    const std::string section(section_key.str());
    const auto line = section_key.source().begin.line;
    const std::string where = fmt::format("{}:{}", file, line);
    CBWC_CHECK(node.is_table() || !is_section(section), where, ": expected one section [", section,
               "], got ", node_type(node));
    if (!node.is_table()) fail_unknown(where, "", section);
    CBWC_CHECK(is_section(section), where, ": unknown section [", section,
               "]; known: ", section_list());
    for (const auto& [name, value] : *node.as_table()) {
      const std::string at = fmt::format("{}:{}", file, name.source().begin.line);
      const ConfigKey* key = find_key(section, std::string(name.str()));
      if (!key) fail_unknown(at, section, std::string(name.str()));
      set_value(config, *key, value, at);
    }
  }
  config = apply_sets(std::move(config), sets);
  check_sweep(config);
  return config;
}

Config load_config(const std::string& path_or_name, const std::vector<std::string>& sets) {
  const std::string file = find_config(path_or_name);
  Config config = parse_config(read_file(file), file, sets);
  if (config.run.name.empty()) config.run.name = fs::path(file).stem().string();
  return config;
}

std::string describe_keys() {
  Config defaults;
  std::string out, section;
  for (const ConfigKey& key : config_keys()) {
    if (key.section != section) {
      out += (section.empty() ? "[" : "\n[") + key.section + "]\n";
      section = key.section;
    }
    const KeyField field = key.field(defaults);
    const std::string type =
        key.choices.empty()
            ? type_name(field)
            : type_name(field) + ": " + fmt::format("{}", fmt::join(key.choices, "|"));
    // The complete TOML holds the defaults' spelling.
    static const std::string complete = config_to_toml(Config{});
    const size_t begin = complete.find("\n" + key.name + " = ", complete.find("[" + section + "]"));
    const size_t value = begin + key.name.size() + 4;
    const std::string standard = complete.substr(value, complete.find('\n', value) - value);
    out += fmt::format("{} = {}\n    {}{}; {}\n", key.name, standard, type,
                       key.unit.empty() ? "" : " (" + key.unit + ")", key.help);
  }
  return out;
}

}  // namespace cbwc
