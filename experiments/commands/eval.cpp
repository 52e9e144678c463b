// cbwc eval MODEL: loss and metrics of a trained, folded or imported model.
#include <fmt/format.h>

#include <cmath>

#include "data/text.h"
#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/metrics.h"
#include "experiments/opened_run.h"
#include "experiments/run_text.h"
#include "experiments/text_score.h"

namespace cbwc {
namespace {

struct EvalOptions {
  std::string run, split = "val", text, data;
  int64_t batches = 0, window = 0;
};

// The whole file as one document, without the end of its last line.
std::string document_of(const std::string& path) {
  TextCounts counts;
  const std::vector<std::string> found =
      split_documents(read_file(path), path, {.documents = Documents::file}, counts);
  CBWC_CHECK(!found.empty(), path, ": has no text");
  return found[0];
}

int run_text(const EvalOptions& options, const CommandContext& context) {
  const std::string text = document_of(options.text);
  const TextModel run = open_text_model(options.run);
  const Config& config = run.config;
  CBWC_CHECK(task_of(config) == Task::language_model, options.run,
             ": --text measures how well a "
             "decoder (gpt, opt, phi, bloom) predicts a text; this is a model of family ",
             config.model.family,
             config.model.family == "bert" ? ", whose vectors `cbwc embed` gives" : "");
  const int64_t window = options.window > 0 ? options.window : config.model.context;
  CBWC_CHECK(window <= config.model.context, "--window ", window, ": the model reads ",
             config.model.context, " tokens");
  const TextScore score = score_text(*run.model, *run.data.tokenizer, text, window, 1);
  const double perplexity = perplexity_of(score.loss);
  fmt::print(
      "{} on {}: loss {:.6f}, perplexity {:.4f}, over {} tokens in {} windows of {} that do "
      "not overlap\n",
      options.run, options.text, score.loss, perplexity, score.targets, score.windows, window);
  write_command_json(context, "eval", config_json(config),
                     {{"text", options.text},
                      {"loss", json_number(score.loss)},
                      {"perplexity", json_number(perplexity)},
                      {"tokens", score.tokens},
                      {"targets", score.targets},
                      {"windows", score.windows},
                      {"window", window}});
  return std::isfinite(score.loss) ? 0 : 1;
}

int run_eval(const EvalOptions& options, const CommandLine& command,
             const CommandContext& context) {
  require_cpu(context.global.device);
  // What the other way of measuring does not read.
  for (const char* other : {"--split", "--batches", "--data"})
    CBWC_CHECK(options.text.empty() || command.count(other) == 0, "eval: ", other,
               " is for a data file, not for --text");
  CBWC_CHECK(!options.text.empty() || command.count("--window") == 0,
             "eval: --window is for --text");
  if (!options.text.empty()) return run_text(options, context);
  const OpenedRun run = open_run(options.run, options.split, options.data);
  const TrainingData& data = run.data;
  Trainer& trainer = *run.trainer;
  Evaluation e = trainer.evaluate(*data.eval, options.batches);
  trainer.add_final_metrics(e.metrics, options.batches * run.config.data.batch);
  fmt::print("{} at step {}, {} split: loss {:.6f}", options.run, run.step, options.split, e.loss);
  for (const auto& [name, value] : e.metrics.items())
    fmt::print(", {} {:.4f}", name, number_from_json(value));
  fmt::print("\n");
  if (!run.note.empty()) fmt::print(stderr, "warning: {}\n", run.note);
  write_command_json(context, "eval", config_json(run.config),
                     {{"split", options.split},
                      {"data", run.config.data.file},
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

void add_eval_command(CommandLine app, CommandContext& context) {
  auto o = std::make_shared<EvalOptions>();
  CommandLine command =
      app.add_subcommand("eval", "loss and metrics of a model on a data file, or on a text");
  command
      .add_option("model", o->run,
                  "run directory, checkpoint, folded or imported model, or Hugging Face folder")
      .type_name("MODEL")
      .required();
  command
      .add_option("--data", o->data,
                  "a file that `cbwc data` made (default: the run's): accuracy of a classifier, "
                  "loss of masked tokens. Images are resized and normalised as the model folder's "
                  "preprocessor_config.json says, else resized as in training and normalised as "
                  "the run's data file or this file; texts are encoded by the model's tokenizer")
      .type_name("FILE.h5");
  command.add_option("--split", o->split, "train, val or test (default val)")
      .check(one_of({"train", "val", "test"}));
  command.add_option("--batches", o->batches, "at most so many batches (default 0: all)")
      .check(at_least(0));
  command
      .add_option("--text", o->text,
                  "instead: perplexity of a decoder, an imported one too, on a UTF-8 text")
      .type_name("FILE");
  command.add_option("--window", o->window, "tokens of a window of --text (default: the context)")
      .check(at_least(1));
  command.callback([o, command, &context] { context.exit_code = run_eval(*o, command, context); });
}

}  // namespace cbwc
