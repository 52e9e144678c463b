// What a command of the program sees: the global options and how it registers itself. Each command
// is one file of experiments/commands/.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "data/json.h"
#include "experiments/command_line.h"
#include "experiments/config.h"

namespace cbwc {

struct GlobalOptions {
  int threads = 0;  // 0: one per core
  Device device = Device::cpu;
  bool quiet = false;
  std::string json;  // "": none
};

struct CommandContext {
  GlobalOptions global;  // filled when a command's callback runs
  int exit_code = 0;     // a callback sets 1 for a failed run or check; mistakes are thrown
};

// Each adds its subcommand to `app`, keeps its options in a shared_ptr and sets the callback:
//   auto options = std::make_shared<Options>();
//   CommandLine command = app.add_subcommand("train", "...");
//   add_config_options(command, options->config, options->sets);
//   command.callback([options, &context] { context.exit_code = run_train(*options, context); });
void add_train_command(CommandLine app, CommandContext& context);
void add_compare_command(CommandLine app, CommandContext& context);
void add_equiv_command(CommandLine app, CommandContext& context);
void add_detect_command(CommandLine app, CommandContext& context);
void add_fold_command(CommandLine app, CommandContext& context);
void add_import_command(CommandLine app, CommandContext& context);
void add_export_command(CommandLine app, CommandContext& context);
void add_eval_command(CommandLine app, CommandContext& context);
void add_generate_command(CommandLine app, CommandContext& context);
void add_embed_command(CommandLine app, CommandContext& context);
void add_bench_command(CommandLine app, CommandContext& context);
void add_infer_bench(CommandLine bench, CommandContext& context);  // below bench
void add_data_command(CommandLine app, CommandContext& context);
void add_report_command(CommandLine app, CommandContext& context);
void add_config_command(CommandLine app, CommandContext& context);
void add_info_command(CommandLine app, CommandContext& context);

void add_commands(CommandLine app, CommandContext& context);  // all of them (commands/all.cpp)

// One line on stderr for each key of a CONFIG, or its --set, that has no effect.
void print_unread_sizes(const Config& config);

// The positional CONFIG (one, required) and the repeatable --set.
void add_config_options(CommandLine command, std::string& config, std::vector<std::string>& sets);
void add_set_option(CommandLine command, std::vector<std::string>& sets);

// Error, before the work, when --json cannot be written. `made`: the folder that the command will
// make, in which or beside which it may lie. Called for every command with its --out; a command
// whose folder has a default calls it itself.
void check_command_json(const CommandContext& context, const std::string& made);
// Writes the object of cli.md to --json, if that was given. `config` may be an empty object.
void write_command_json(const CommandContext& context, const std::string& command,
                        const nlohmann::json& config, const nlohmann::json& results);

}  // namespace cbwc
