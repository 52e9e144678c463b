// cbwc generate RUN: text from a trained run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/instructions.h"
#include "data/text.h"
#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/opened_run.h"
#include "experiments/translation.h"

namespace cbwc {
namespace {

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
  const OpenedRun run = open_run(options.run, "");
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
