// cbwc eval RUN: loss and metrics of a trained run.
#include <fmt/format.h>

#include <cmath>

#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/opened_run.h"

namespace cbwc {
namespace {

struct EvalOptions {
  std::string run, split = "val";
  int64_t batches = 0;
};

int run_eval(const EvalOptions& options, const CommandContext& context) {
  require_cpu(context.global.device);
  const OpenedRun run = open_run(options.run, options.split);
  const TrainingData& data = run.data;
  Trainer& trainer = *run.trainer;
  Evaluation e = trainer.evaluate(*data.eval, options.batches);
  trainer.add_final_metrics(e.metrics, options.batches * run.config.data.batch);
  fmt::print("{} at step {}, {} split: loss {:.6f}", options.run, run.step, options.split, e.loss);
  for (const auto& [name, value] : e.metrics.items())
    fmt::print(", {} {:.4f}", name, number_from_json(value));
  fmt::print("\n");
  write_command_json(context, "eval", config_json(run.config),
                     {{"split", options.split},
                      {"step", run.step},
                      {"samples", data.eval->samples()},
                      {"targets", e.targets},
                      {"loss", json_number(e.loss)},
                      {"metric", e.metric},
                      {"metric_value", json_number(e.value())},
                      {"metrics", e.metrics}});
  return std::isfinite(e.loss) ? 0 : 1;
}

}  // namespace

void add_eval_command(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<EvalOptions>();
  CLI::App* command = app.add_subcommand("eval", "loss and metrics of a run on a split");
  command->add_option("run", o->run, "run directory")->type_name("RUN")->required();
  command->add_option("--split", o->split, "val or test (default val)")
      ->check(CLI::IsMember({"train", "val", "test"}));
  command->add_option("--batches", o->batches, "at most so many batches (default 0: all)")
      ->check(CLI::NonNegativeNumber);
  command->callback([o, &context] { context.exit_code = run_eval(*o, context); });
}

}  // namespace cbwc
