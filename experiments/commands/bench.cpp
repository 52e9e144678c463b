// cbwc bench ops | train | loader | infer
#include "experiments/bench.h"

#include <fmt/format.h>

#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/missing_data.h"
#include "experiments/model_setup.h"

namespace cbwc {
namespace {

void add_ops(CLI::App& bench, CommandContext& context) {
  auto o = std::make_shared<OpsBenchOptions>();
  CLI::App* command = bench.add_subcommand("ops", "norms against a plain copy of the same bytes");
  command->add_option("--shapes", o->shapes, "ROWSxCOLS ... (default: a list of widths)");
  command->add_option("--dtypes", o->dtypes, "float32 float64 (default float32)");
  command->add_option("--repeats", o->repeats, "timed repeats of each op (default 30)")
      ->check(CLI::PositiveNumber);
  command->add_flag("--more", o->more,
                    "also GELU, tanh, sigmoid, gathered rows and rotary positions, forward");
  command->callback([o, &context] {
    require_cpu(context.global.device);
    const std::vector<OpsBenchRow> rows = bench_ops(*o);
    fmt::print("{}", ops_bench_table(rows));
    write_command_json(context, "bench ops", nlohmann::json::object(), ops_bench_json(rows));
  });
}

struct TrainOptions {
  std::string config;
  std::vector<std::string> sets;
  TrainBenchOptions bench;
};

void add_train(CLI::App& bench, CommandContext& context) {
  auto o = std::make_shared<TrainOptions>();
  CLI::App* command =
      bench.add_subcommand("train", "one training step against the time of its matrix products");
  add_config_options(*command, o->config, o->sets);
  command->add_option("--arms", o->bench.arms,
                      "values of model.norm (default layernorm rmsnorm cbwc_rmsnorm)");
  command->add_option("--batch", o->bench.batch, "samples in a batch (default 4)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--seq", o->bench.seq,
                   "tokens in a sample (default 256, or the context where that is less); images "
                   "have none")
      ->check(CLI::PositiveNumber);
  command->add_option("--steps", o->bench.steps, "timed steps of each arm (default 7)")
      ->check(CLI::PositiveNumber);
  command->add_option("--dropout", o->bench.dropout,
                      "in place of dropout and attention_dropout, 0 also of drop_path (default 0; "
                      "below 0: the config's)");
  command->callback([o, &context] {
    require_cpu(context.global.device);
    const Config config = load_config(o->config, o->sets);
    const TrainBench result = bench_train(config, o->bench);
    fmt::print("{}", train_bench_table(result));
    write_command_json(context, "bench train", config_json(config), train_bench_json(result));
  });
}

struct LoaderOptions {
  std::string config;
  std::vector<std::string> sets;
  LoaderBenchOptions bench;
};

void add_loader(CLI::App& bench, CommandContext& context) {
  auto o = std::make_shared<LoaderOptions>();
  CLI::App* command = bench.add_subcommand(
      "loader", "samples that data.file's training stream gives, beside those of a training step");
  add_config_options(*command, o->config, o->sets);
  command->add_option("--workers", o->bench.workers, "numbers of loading threads (default 1 2)")
      ->check(CLI::PositiveNumber);
  command->add_option("--batches", o->bench.batches, "timed batches for each (default 50)")
      ->check(CLI::PositiveNumber);
  command->add_option("--steps", o->bench.steps, "timed training steps (default 3)")
      ->check(CLI::PositiveNumber);
  command->callback([o, &context] {
    require_cpu(context.global.device);
    const Config config = load_config(o->config, o->sets);
    make_missing_data(config);
    const LoaderBench result = bench_loader(config, o->bench);
    fmt::print("{}", loader_bench_table(result));
    write_command_json(context, "bench loader", config_json(config), loader_bench_json(result));
  });
}

struct InferOptions {
  std::vector<std::string> configs = {"gpt2_124m", "gpt_quickstart"};
  std::vector<std::string> sets;
  InferBenchOptions bench;
};

void add_infer(CLI::App& bench, CommandContext& context) {
  auto o = std::make_shared<InferOptions>();
  CLI::App* command = bench.add_subcommand(
      "infer",
      "one forward pass: LayerNorm, the same weights folded, no norm; interleaved (and, where "
      "not all norms fold, all RMSNorm, for its time alone)");
  command->add_option("CONFIG", o->configs,
                      "configs: files or bare names (default gpt2_124m gpt_quickstart)");
  add_set_option(*command, o->sets);
  command->add_option(
      "--shapes", o->bench.shapes,
      "BATCHxSEQ ..., at most 16384 tokens; images: BATCH (default 1 and 8 x 128 to "
      "4096; images 1 8)");
  command
      ->add_option("--seconds", o->bench.seconds,
                   "time for each shape, all arms together, in seconds (default 5)")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--least-repeats", o->bench.least_repeats,
                   "timed passes of each arm, however long (default 6, at least 5)")
      ->check(CLI::Range(5, 1'000'000));
  command->callback([o, &context] {
    require_cpu(context.global.device);
    std::vector<InferBench> results;
    nlohmann::json configs = nlohmann::json::object();
    for (const std::string& name : o->configs) {
      const Config config = load_config(name, o->sets);
      results.push_back(bench_infer(config, o->bench));
      configs[name] = config_json(config);
      fmt::print("{}{}", results.size() > 1 ? "\n" : "", infer_bench_table(results.back()));
    }
    write_command_json(context, "bench infer", configs, infer_bench_json(results));
  });
}

}  // namespace

void add_bench_command(CLI::App& app, CommandContext& context) {
  CLI::App* bench = app.add_subcommand("bench", "measured tables (medians over repeats)");
  bench->require_subcommand(1);
  add_ops(*bench, context);
  add_train(*bench, context);
  add_loader(*bench, context);
  add_infer(*bench, context);
}

}  // namespace cbwc
