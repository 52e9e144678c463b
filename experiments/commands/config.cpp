// cbwc config [FILE]: every key with its meaning, or a config with all defaults filled in.
#include <fmt/format.h>

#include <cstdio>

#include "experiments/command.h"
#include "experiments/config.h"
#include "experiments/json_output.h"

namespace cbwc {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> sets;
};

nlohmann::json keys_json() {
  nlohmann::json keys = nlohmann::json::array();
  const nlohmann::json defaults = config_json(Config{});
  for (const ConfigKey& key : config_keys())
    keys.push_back({{"key", key.full()},
                    {"default", defaults[key.section][key.name]},
                    {"unit", key.unit},
                    {"choices", key.choices},
                    {"help", key.help}});
  return keys;
}

int run_config(const Options& options, const CommandContext& context) {
  if (options.config.empty()) {
    CBWC_CHECK(options.sets.empty(), "--set needs a CONFIG");
    fmt::print("{}\nShipped configs: {}\n", describe_keys(), fmt::join(shipped_configs(), ", "));
    write_command_json(context, "config", nlohmann::json::object(), {{"keys", keys_json()}});
    return 0;
  }
  const Config config = load_config(options.config, options.sets);
  print_unread_sizes(config);
  fmt::print("{}", config_to_toml(config));
  write_command_json(context, "config", config_json(config), {{"digest", config_digest(config)}});
  return 0;
}

}  // namespace

void add_config_command(CommandLine app, CommandContext& context) {
  auto options = std::make_shared<Options>();
  CommandLine command =
      app.add_subcommand("config", "every config key, or FILE with all defaults filled in");
  command.add_option("file", options->config, "a TOML file, or the name of a shipped config")
      .type_name("FILE");
  add_set_option(command, options->sets);
  command.callback([options, &context] { context.exit_code = run_config(*options, context); });
}

}  // namespace cbwc
