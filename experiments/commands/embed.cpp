// cbwc embed MODEL --input FILE --out FILE: sentence vectors of a BERT.
#include <fmt/format.h>

#include <filesystem>

#include "data/text.h"
#include "experiments/command.h"
#include "experiments/embed.h"
#include "experiments/json_output.h"
#include "experiments/model_setup.h"
#include "experiments/out_path.h"

namespace cbwc {
namespace {

struct Options {
  std::string model, input, out, pooling;
  bool normalize = false;
  int64_t tokens = 0, batch = 32;
};

// One object a line, in the order of the texts.
std::string lines_json(const SentenceVectors& v) {
  const Tensor wide = v.vectors.to(DType::f64);
  const auto* x = wide.data<double>();
  const int64_t dim = wide.size(1);
  std::string out;
  for (size_t i = 0; i < v.tokens.size(); ++i, x += dim) {
    out += fmt::format("{{\"line\":{},\"tokens\":{},\"vector\":[", i + 1, v.tokens[i]);
    for (int64_t d = 0; d < dim; ++d) out += fmt::format("{}{:.9g}", d > 0 ? "," : "", x[d]);
    out += "]}\n";
  }
  return out;
}

nlohmann::json results_of(const Options& o, const SentenceVectors& v,
                          const SentenceOptions& sentence) {
  return {{"texts", v.tokens.size()},
          {"dim", v.vectors.size(1)},
          {"pooling", sentence.pooling},
          {"normalize", sentence.normalize},
          {"longest", v.longest},
          {"cut", v.cut},
          {"model", o.model},
          {"input", o.input}};
}

void write_vectors(const Options& o, const SentenceVectors& v, const nlohmann::json& results) {
  if (std::filesystem::path(o.out).extension() == ".jsonl") {
    write_text_file(o.out, lines_json(v));
    return;
  }
  Checkpoint file;
  file.tensors = {{"vectors", v.vectors},
                  {"tokens", Tensor::from(v.tokens, {std::ssize(v.tokens)})}};
  file.attributes_json = results.dump();
  write_checkpoint(o.out, file);
}

int run(const Options& o, bool normalize_given, const CommandContext& context) {
  require_cpu(context.global.device);
  const std::string type = std::filesystem::path(o.out).extension();
  CBWC_CHECK(type == ".h5" || type == ".jsonl", "--out ", o.out,
             ": expected a name that ends in .h5 or .jsonl");
  check_can_write(o.out, type == ".h5" ? kDataFile : kVectorLines);
  TextCounts counts;
  const std::vector<std::string> texts = clean_lines(read_file(o.input), o.input, {}, counts);
  CBWC_CHECK(!texts.empty(), o.input, ": is empty; expected one text a line");
  TextModel opened = open_text_model(o.model);
  auto* bert = dynamic_cast<Bert*>(opened.model.get());
  CBWC_CHECK(bert != nullptr, o.model, ": is a ", opened.config.model.family,
             "; embed reads models of family bert");
  SentenceOptions sentence = opened.sentence;
  if (!o.pooling.empty()) sentence.pooling = o.pooling;
  if (normalize_given) sentence.normalize = o.normalize;
  if (o.tokens > 0) sentence.tokens = o.tokens;
  const SentenceVectors v = embed_texts(*bert, *opened.data.tokenizer, texts, sentence, o.batch);
  const nlohmann::json results = results_of(o, v, sentence);
  write_vectors(o, v, results);
  if (!context.global.quiet) {
    fmt::print("{} vectors of {}: {} over the tokens{}\n", texts.size(), v.vectors.size(1),
               sentence.pooling == "cls" ? "the first" : "the mean",
               sentence.normalize ? ", length 1" : "");
    if (v.cut > 0) fmt::print("{} texts were cut to {} tokens\n", v.cut, v.longest);
    fmt::print("{}\n", o.out);
  }
  write_command_json(context, "embed", config_json(opened.config), results);
  return 0;
}

}  // namespace

void add_embed_command(CommandLine app, CommandContext& context) {
  auto o = std::make_shared<Options>();
  CommandLine command = app.add_subcommand("embed", "sentence vectors of a BERT-like model");
  command
      .add_option("model", o->model,
                  "run directory, checkpoint, folded or imported model, or Hugging Face folder")
      .type_name("MODEL")
      .required();
  command.add_option("--input", o->input, "UTF-8 text, one sentence a line (empty ones too)")
      .type_name("FILE")
      .required();
  command.add_option("--out", o->out, "FILE.jsonl, or FILE.h5 with the vectors in /tensors/000000")
      .type_name("FILE")
      .required();
  command
      .add_option("--pooling", o->pooling,
                  "mean of the tokens' states or the first one's (default: as the model's folder "
                  "says, else mean)")
      .check(one_of({"mean", "cls"}));
  Option normalize = command.add_flag_callback(
      "--normalize", [o] { o->normalize = true; },
      "scale each vector to length 1 (default: as the model's folder says, else not)");
  Option as_it_is = command.add_flag_callback(
      "--no-normalize", [o] { o->normalize = false; }, "leave each vector as it is");
  as_it_is.excludes(normalize);
  command.add_option("--tokens", o->tokens, "longest text (default: as the folder says, else all)")
      .check(at_least(1));
  command.add_option("--batch", o->batch, "texts at once (default 32)").check(at_least(1));
  command.callback([o, normalize, as_it_is, &context] {
    context.exit_code = run(*o, normalize.count() + as_it_is.count() > 0, context);
  });
}

}  // namespace cbwc
