// cbwc bench ops | train | loader (infer: bench_infer.cpp)
#include "experiments/bench.h"

#include <fmt/format.h>

#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/missing_data.h"
#include "experiments/model_setup.h"

namespace cbwc {
namespace {

void add_ops(CommandLine bench, CommandContext& context) {
  auto o = std::make_shared<OpsBenchOptions>();
  CommandLine command = bench.add_subcommand("ops", "norms against a plain copy of the same bytes");
  command.add_option("--shapes", o->shapes, "ROWSxCOLS ... (default: a list of widths)");
  command.add_option("--dtypes", o->dtypes, "float32 float64 (default float32)");
  command.add_option("--repeats", o->repeats, "timed repeats of each op (default 30)")
      .check(at_least(1));
  command.add_flag("--more", o->more,
                   "also GELU, tanh, sigmoid, gathered rows and rotary positions, forward; and at "
                   "shapes of their own the patch embeddings (conv2d) of ViT-B/16 and Swin-T "
                   "over their matrix products, and GPT-2's products for one token of 1 and 8 "
                   "texts over reading their weights once");
  command.callback([o, &context] {
    require_cpu(context.global.device);
    const std::vector<OpsBenchRow> rows = bench_ops(*o);
    const std::vector<ProductBenchRow> products =
        o->more ? bench_products(*o) : std::vector<ProductBenchRow>();
    fmt::print("{}{}", ops_bench_table(rows), products_bench_table(products));
    nlohmann::json results = ops_bench_json(rows);
    for (nlohmann::json& row : products_bench_json(products))
      results["rows"].push_back(std::move(row));
    write_command_json(context, "bench ops", nlohmann::json::object(), results);
  });
}

struct TrainOptions {
  std::string config;
  std::vector<std::string> sets;
  TrainBenchOptions bench;
};

void add_train(CommandLine bench, CommandContext& context) {
  auto o = std::make_shared<TrainOptions>();
  CommandLine command =
      bench.add_subcommand("train", "one training step against the time of its matrix products");
  add_config_options(command, o->config, o->sets);
  command.add_option("--arms", o->bench.arms,
                     "values of model.norm (default layernorm rmsnorm cbwc_rmsnorm)");
  command.add_option("--batch", o->bench.batch, "samples in a batch (default 4)")
      .check(at_least(1));
  command
      .add_option("--seq", o->bench.seq,
                  "tokens in a sample (default 256, or the context where that is less); images "
                  "have none")
      .check(at_least(1));
  command.add_option("--steps", o->bench.steps, "timed steps of each arm (default 7)")
      .check(at_least(1));
  command
      .add_option("--dropout", o->bench.dropout,
                  "in place of dropout and attention_dropout, 0 also of drop_path: 0 up to but "
                  "not including 1 (default 0; below 0: the config's)")
      .check(between(-1, 1));
  command.callback([o, &context] {
    require_cpu(context.global.device);
    const Config config = load_config(o->config, o->sets);
    print_unread_sizes(config);
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

void add_loader(CommandLine bench, CommandContext& context) {
  auto o = std::make_shared<LoaderOptions>();
  CommandLine command = bench.add_subcommand(
      "loader", "samples that data.file's training stream gives, beside those of a training step");
  add_config_options(command, o->config, o->sets);
  command.add_option("--workers", o->bench.workers, "numbers of loading threads (default 1 2)")
      .check(at_least(1));
  command.add_option("--batches", o->bench.batches, "timed batches for each (default 50)")
      .check(at_least(1));
  command.add_option("--steps", o->bench.steps, "timed training steps (default 3)")
      .check(at_least(1));
  command.callback([o, &context] {
    require_cpu(context.global.device);
    const Config config = load_config(o->config, o->sets);
    print_unread_sizes(config);
    make_missing_data(config);
    const LoaderBench result = bench_loader(config, o->bench);
    fmt::print("{}", loader_bench_table(result));
    write_command_json(context, "bench loader", config_json(config), loader_bench_json(result));
  });
}

}  // namespace

void add_bench_command(CommandLine app, CommandContext& context) {
  CommandLine bench = app.add_subcommand("bench", "measured tables (medians over repeats)");
  bench.require_subcommand();
  add_ops(bench, context);
  add_train(bench, context);
  add_loader(bench, context);
  add_infer_bench(bench, context);
}

}  // namespace cbwc
