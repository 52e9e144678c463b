// cbwc generate RUN: text from a trained run.
#include <fmt/format.h>

#include <algorithm>

#include "data/instructions.h"
#include "data/text.h"
#include "experiments/command.h"
#include "experiments/generation.h"
#include "experiments/json_output.h"
#include "experiments/model_setup.h"
#include "experiments/run_text.h"
#include "experiments/translation.h"

namespace cbwc {
namespace {

struct GenerateOptions {
  std::string run, prompt, input;
  GenerationOptions generation;
  int64_t seed = 1;
};

// A model of instructions answers from where its prompt ends, so that the answer needs room behind
// it; as in training, a long prompt loses tokens at its left. Other texts slide through the
// context.
void fit_prompt(std::vector<int32_t>& ids, const GenerationOptions& o, bool instructions) {
  const int64_t room = instructions ? std::max<int64_t>(1, o.context - o.tokens) : o.context;
  const int64_t length = std::ssize(ids);
  if (length <= room) return;
  ids.erase(ids.begin(), ids.end() - room);
  fmt::print(stderr, "warning: the prompt has {} tokens, of which the last {} are read: {}\n",
             length, room,
             instructions ? fmt::format("the model's context of {} is to hold --tokens {} as well",
                                        o.context, o.tokens)
                          : "the model's context holds no more");
}

int run_generate(const GenerateOptions& options, const CommandContext& context) {
  require_cpu(context.global.device);
  const size_t bad = invalid_utf8(options.prompt);
  CBWC_CHECK(bad == std::string_view::npos, "--prompt is not UTF-8: byte offset ", bad);
  const TextModel run = open_text_model(options.run);
  const TrainingData& data = run.data;
  Model& model = *run.model;
  CBWC_CHECK(options.input.empty() || data.instructions, "--input is for models of instructions; ",
             options.run, " is none");
  if (task_of(run.config) == Task::translation) {
    const std::string text = translate_text(model, data, run.config, options.prompt);
    fmt::print("{}\n", text);
    write_command_json(context, "generate", config_json(run.config),
                       {{"prompt", options.prompt}, {"text", text}});
    return 0;
  }
  CBWC_CHECK(task_of(run.config) == Task::language_model, options.run,
             ": is no model that writes text but a ", run.config.model.family);
  const std::string asked =
      data.instructions ? instruction_prompt(options.prompt, options.input) : options.prompt;
  std::vector<int32_t> ids = data.tokenizer->wrap().before;
  const std::vector<int32_t> asked_ids = data.tokenizer->encode(asked);
  const size_t prompt = asked_ids.size();
  ids.insert(ids.end(), asked_ids.begin(), asked_ids.end());
  if (ids.empty()) ids.push_back(data.tokenizer->end_of_document());
  GenerationOptions generation = options.generation;
  generation.seed = static_cast<uint64_t>(options.seed);
  generation.context = run.config.model.context;
  generation.vocab = data.shape.vocab;  // rows of the logits beyond the tokenizer are padding
  generation.end = data.tokenizer->end_of_document();
  fit_prompt(ids, generation, data.instructions);
  const size_t first = ids.size();
  const std::vector<int32_t> made = generate(model, ids, generation);
  ids.insert(ids.end(), made.begin(), made.end());
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

void add_generate_command(CommandLine app, CommandContext& context) {
  auto o = std::make_shared<GenerateOptions>();
  CommandLine command = app.add_subcommand(
      "generate", "text from a trained language model, or a translation of --prompt");
  command.add_option("run", o->run, "run directory").type_name("RUN").required();
  command.add_option("--prompt", o->prompt, "text to go on from (default: a new document)")
      .type_name("TEXT");
  command.add_option("--input", o->input, "models of instructions: the instruction's input")
      .type_name("TEXT");
  command.add_option("--tokens", o->generation.tokens, "tokens to make at most (default 100)")
      .check(at_least(1));
  command
      .add_option("--temperature", o->generation.temperature, "0 takes the likeliest (default 1)")
      .check(at_least(0));
  command
      .add_option("--top-k", o->generation.top_k, "draw from the k likeliest only (default 0: all)")
      .check(at_least(0));
  command.add_option("--seed", o->seed, "of the drawing (default 1)").check(at_least(0));
  command.callback([o, &context] { context.exit_code = run_generate(*o, context); });
}

}  // namespace cbwc
