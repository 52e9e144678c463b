// cbwc eval RUN and cbwc generate RUN: what a trained run can do.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/instructions.h"
#include "data/text.h"
#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/model_graph.h"
#include "experiments/trainer.h"
#include "experiments/translation.h"

namespace cbwc {
namespace {

// A trained or folded model with the data of its run.
struct Opened {
  Config config;
  TrainingData data;
  int64_t step;
  std::unique_ptr<Trainer> trainer;
};

Opened open(const std::string& path, const std::string& eval_split) {
  LoadedModel loaded = load_model(path);
  for (const std::string& warning : loaded.warnings)
    fmt::print(stderr, "warning: skipped {}\n", warning);
  CBWC_CHECK(!loaded.checkpoint_path.empty(), path,
             ": is a config; expected a run, a checkpoint or a folded model");
  Opened o{loaded.config, open_data(loaded.config, eval_split), loaded.attributes.at("step"), {}};
  check_checksum(loaded.attributes, o.data, o.config.data.file);
  o.trainer = std::make_unique<Trainer>(o.config, o.config.run.seeds.at(0), o.data,
                                        std::move(loaded.model));
  return o;
}

struct EvalOptions {
  std::string run, split = "val";
  int64_t batches = 0;
};

int run_eval(const EvalOptions& options, const CommandContext& context) {
  require_cpu(context.global.device);
  const Opened run = open(options.run, options.split);
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

struct GenerateOptions {
  std::string run, prompt, input;
  int64_t tokens = 100, top_k = 0, seed = 1;
  double temperature = 1.0;
};

// One token from the last row of the logits. Temperature 0 takes the largest.
int32_t draw(const std::vector<double>& logits, const GenerateOptions& options, Rng& rng) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (options.temperature == 0) return order[0];
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < order.size())
    order.resize(static_cast<size_t>(options.top_k));
  std::vector<double> sums;
  double sum = 0;
  const double top = logits[static_cast<size_t>(order[0])];
  for (int32_t id : order)
    sums.push_back(sum += std::exp((logits[static_cast<size_t>(id)] - top) / options.temperature));
  const double at = rng.uniform() * sum;
  const size_t i =
      static_cast<size_t>(std::upper_bound(sums.begin(), sums.end(), at) - sums.begin());
  return order[std::min(i, order.size() - 1)];
}

std::vector<double> last_logits(Model& model, int64_t context, const std::vector<int32_t>& ids) {
  const int64_t n = static_cast<int64_t>(ids.size());
  const int64_t used = std::min(n, context);
  const std::vector<int32_t> window(ids.end() - used, ids.end());
  const Tensor logits = model.last_logits(Tensor::from(window, {1, used}), Context{}).value();
  return logits.to(DType::f64).to_vector<double>();
}

int run_generate(const GenerateOptions& options, const CommandContext& context) {
  require_cpu(context.global.device);
  const size_t bad = invalid_utf8(options.prompt);
  CBWC_CHECK(bad == std::string_view::npos, "--prompt is not UTF-8: byte offset ", bad);
  const Opened run = open(options.run, "");
  const TrainingData& data = run.data;
  Trainer& trainer = *run.trainer;
  if (task_of(run.config) == Task::translation) {
    const std::string text = translate_text(trainer.model(), data, run.config, options.prompt);
    fmt::print("{}\n", text);
    write_command_json(context, "generate", config_json(run.config),
                       {{"prompt", options.prompt}, {"text", text}});
    return 0;
  }
  CBWC_CHECK(task_of(run.config) == Task::language_model, options.run,
             ": is no model that writes text but a ", run.config.model.family);
  const std::string asked =
      data.instructions ? instruction_prompt(options.prompt, options.input) : options.prompt;
  std::vector<int32_t> ids = data.tokenizer->encode(asked);
  const size_t prompt = ids.size();
  if (ids.empty()) ids.push_back(data.tokenizer->end_of_document());
  const size_t first = ids.size();
  Rng rng(static_cast<uint64_t>(options.seed), "generate");
  for (int64_t i = 0; i < options.tokens; ++i) {
    std::vector<double> logits = last_logits(trainer.model(), run.config.model.context, ids);
    logits.resize(static_cast<size_t>(data.shape.vocab));  // rows beyond the tokenizer are padding
    ids.push_back(draw(logits, options, rng));
    if (ids.back() == data.tokenizer->end_of_document()) break;
  }
  const std::string text = data.tokenizer->continuation(ids, first);
  fmt::print("{}{}\n", options.prompt, text);
  std::string whole = text;  // a cut sequence may end inside a character; JSON wants UTF-8
  for (size_t at; (at = invalid_utf8(whole)) != std::string::npos;) whole[at] = '?';
  write_command_json(context, "generate", config_json(run.config),
                     {{"prompt", options.prompt},
                      {"prompt_tokens", prompt},
                      {"text", whole},
                      {"tokens", ids.size() - first}});
  return 0;
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

void add_generate_command(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand(
      "generate", "text from a trained language model, or a translation of --prompt");
  command->add_option("run", o->run, "run directory")->type_name("RUN")->required();
  command->add_option("--prompt", o->prompt, "text to go on from (default: a new document)")
      ->type_name("TEXT");
  command->add_option("--input", o->input, "models of instructions: the instruction's input")
      ->type_name("TEXT");
  command->add_option("--tokens", o->tokens, "tokens to make at most (default 100)")
      ->check(CLI::PositiveNumber);
  command->add_option("--temperature", o->temperature, "0 takes the likeliest (default 1)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--top-k", o->top_k, "draw from the k likeliest only (default 0: all)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seed", o->seed, "of the drawing (default 1)")
      ->check(CLI::NonNegativeNumber);
  command->callback([o, &context] { context.exit_code = run_generate(*o, context); });
}

}  // namespace cbwc
