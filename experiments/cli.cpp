#include "experiments/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "core/check.h"
#include "core/device_services.h"
#include "core/parallel.h"
#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/out_path.h"

namespace cbwc {
namespace {

// On every command, so that global options may stand before or after it. The values given last win.
struct GlobalText {
  std::string device = "cpu";
};

void add_global_options(CommandLine app, GlobalOptions& global, GlobalText& text) {
  app.add_option("--threads", global.threads, "threads; 0: one per core (default 0)")
      .check(between(0, 4096))
      .group("Global options");
  app.add_option("--device", text.device, "cpu or cuda (default cpu)")
      .check(one_of({"cpu", "cuda"}))
      .group("Global options");
  app.add_flag("--quiet", global.quiet, "no progress lines").group("Global options");
  app.add_option("--json", global.json, "write one JSON object with config and results to FILE")
      .group("Global options");
}

void add_globals_below(CLI::App& command, CommandContext& context, GlobalText& text) {
  add_global_options(CommandLine(command), context.global, text);
  command.set_version_flag("--version", std::string("cbwc ") + CBWC_VERSION)
      ->group("Global options");
  for (CLI::App* below : command.get_subcommands({})) add_globals_below(*below, context, text);
}

void apply_globals(CommandContext& context, const GlobalText& text) {
  context.global.device = text.device == "cuda" ? Device::cuda : Device::cpu;
  if (context.global.device == Device::cuda) {
    CBWC_CHECK(cuda::built(),
               "--device cuda: this build has no CUDA kernels (cmake --preset cuda)");
    CBWC_CHECK(cuda::device_count() > 0, "--device cuda: no GPU was found on this machine");
  }
  set_threads(context.global.threads);
}

// The folders of train and compare have defaults, which they know themselves.
void check_json(const CLI::App& app, const CommandContext& context) {
  for (const CLI::App* command : app.get_subcommands()) {
    const CLI::Option* out = command->get_option_no_throw("--out");
    if (out == nullptr)
      check_command_json(context, "");
    else if (out->get_required() || out->count() > 0)
      check_command_json(context, out->count() > 0 ? out->results().back() : "");
  }
}

// "cbwc bench"
std::string name_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent == nullptr ? "" : name_of(*parent) + " ") + command.get_name();
}

// A variable of a script that was never set would otherwise stand for the default.
void refuse_empty_paths(const CLI::App& command) {
  for (const char* name :
       {"--out", "--json", "--dot", "--dump", "--plot", "--table", "--write-vocab"}) {
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option == nullptr || option->count() == 0) continue;
    CBWC_CHECK(!option->results().back().empty(), name, ": expected a path, got nothing");
  }
  for (const CLI::App* below : command.get_subcommands()) refuse_empty_paths(*below);
}

// One line: what an exception says may hold line breaks (a parser's usage text).
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

int fail(const std::string& text, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", one_line(text).c_str());
  return code;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Compares LayerNorm, RMSNorm and CBWC+RMSNorm in training.", "cbwc");
  app.set_version_flag("--version", std::string("cbwc ") + CBWC_VERSION);
  app.require_subcommand(1);
  CommandContext context;
  GlobalText text;
  add_global_options(CommandLine(app), context.global, text);
  add_commands(CommandLine(app), context);
  for (CLI::App* command : app.get_subcommands({})) add_globals_below(*command, context, text);
  app.parse_complete_callback([&] {
    apply_globals(context, text);
    refuse_empty_paths(app);
    check_json(app, context);
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // Help and version come this way too, with code 0; anything else is a mistake in the command.
    if (e.get_exit_code() == 0) return app.exit(e);
    const CLI::App* command = &app;
    while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
    if (const auto rest = command->remaining();
        !rest.empty() && !command->get_subcommands({}).empty())
      return fail(
          "unknown command or option '" + rest[0] + "' (see " + name_of(*command) + " --help)", 2);
    return fail(one_line(e.what()) + " (see cbwc --help)", 2);
  }
  return context.exit_code;
}

}  // namespace

void print_unread_sizes(const Config& config) {
  for (const std::string& line : unread_sizes(config)) fmt::print(stderr, "notice: {}\n", line);
}

void add_set_option(CommandLine command, std::vector<std::string>& sets) {
  command
      .add_option("--set", sets,
                  "section.key=value over the config's; the value as TOML (repeatable)")
      .type_name("KEY=VALUE")
      .one_value_each();
}

void add_config_options(CommandLine command, std::string& config, std::vector<std::string>& sets) {
  command.add_option("config", config, "a TOML file, or the name of a shipped config")
      .type_name("CONFIG")
      .required();
  add_set_option(command, sets);
}

void check_command_json(const CommandContext& context, const std::string& made) {
  if (!context.global.json.empty()) check_can_write(context.global.json, kJsonResult, made);
}

void write_command_json(const CommandContext& context, const std::string& command,
                        const nlohmann::json& config, const nlohmann::json& results) {
  if (context.global.json.empty()) return;
  check_command_json(context, "");  // what the command itself made in the meantime is not lost
  write_json(context.global.json, {{"command", command},
                                   {"version", CBWC_VERSION},
                                   {"machine", machine_json(context.global.device)},
                                   {"config", config},
                                   {"results", results}});
}

int run_program(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const Error& e) {
    return fail(e.what(), 2);
  } catch (const RunError& e) {
    return fail(e.what(), 1);
  } catch (const std::filesystem::filesystem_error& e) {
    const bool full = e.code() == std::errc::no_space_on_device;
    return fail(e.path1().string() + ": " + e.code().message(), full ? 1 : 2);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", 1);
  } catch (const std::exception& e) {
    return fail(e.what(), 1);
  }
}

}  // namespace cbwc
