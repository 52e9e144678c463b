// cbwc data NAME --out FILE.h5: builds a data file from what is on the machine.
#include <fmt/format.h>

#include <cstdio>

#include "data/datasets.h"
#include "data/image_datasets.h"
#include "experiments/command.h"
#include "experiments/json_output.h"

namespace cbwc {
namespace {

struct Options {
  std::string name, out, folder, documents = "line";
  std::vector<std::string> input;
  TokenizerOptions tokenizer;
  SplitOptions split;
  bool list = false, replace_invalid = false;
  int64_t max_documents = 0;
};

int list_all(const CommandContext& context) {
  nlohmann::json all = nlohmann::json::array();
  for (const DatasetInfo& info : list_datasets()) {
    fmt::print("{:<12} {} (needs: {})\n", info.name, info.description, info.requires_);
    all.push_back(
        {{"name", info.name}, {"description", info.description}, {"needs", info.requires_}});
  }
  write_command_json(context, "data", nlohmann::json::object(), {{"datasets", all}});
  return 0;
}

DatasetSummary build(const Options& options) {
  if (options.name == "wordnet_lm") {
    CBWC_CHECK(options.input.empty(), "data wordnet_lm: --input is for `cbwc data text`");
    WordnetOptions wordnet{.out = options.out,
                           .tokenizer = options.tokenizer,
                           .split = options.split,
                           .max_documents = options.max_documents};
    if (!options.folder.empty()) wordnet.folder = options.folder;
    return build_wordnet_lm(wordnet);
  }
  if (options.name != "text") {
    std::string known;
    for (const DatasetInfo& info : list_datasets())
      known += (known.empty() ? "" : ", ") + info.name;
    detail::fail("data: unknown data set '", options.name, "'; known: ", known);
  }
  CBWC_CHECK(!options.input.empty(), "data text: expected --input FILES");
  BuildTextOptions text;
  text.out = options.out;
  text.text.documents = parse_documents(options.documents);
  text.text.replace_invalid = options.replace_invalid;
  text.tokenizer = options.tokenizer;
  text.split = options.split;
  return build_text(options.input, text);
}

int run_images(const Options& options, const CommandContext& context) {
  CBWC_CHECK(options.input.empty(), "data ", options.name, ": --input is for `cbwc data text`");
  const ImageSummary made = build_image_dataset(
      options.name, {.out = options.out, .folder = options.folder, .split = options.split});
  for (const std::string& warning : made.warnings) fmt::print(stderr, "warning: {}\n", warning);
  fmt::print("{}: {} images, {} classes, checksum {}\n", made.out, made.kind, made.classes,
             made.checksum);
  nlohmann::json splits = nlohmann::json::object();
  for (size_t s = 0; s < made.images.size(); ++s) {
    const char* name = s == 0 ? "train" : s == 1 ? "val" : "test";
    fmt::print("  {:<6} {:>8} images\n", name, made.images[s]);
    splits[name] = {{"images", made.images[s]}};
  }
  write_command_json(context, "data", nlohmann::json::object(),
                     {{"name", made.name},
                      {"out", made.out},
                      {"kind", made.kind},
                      {"classes", made.classes},
                      {"checksum", made.checksum},
                      {"splits", splits},
                      {"mean", made.mean},
                      {"deviation", made.deviation},
                      {"warnings", made.warnings}});
  return 0;
}

int run_data(const Options& options, const CommandContext& context) {
  if (options.list) return list_all(context);
  CBWC_CHECK(!options.name.empty(), "data: expected NAME (see cbwc data --list)");
  CBWC_CHECK(!options.out.empty(), "data: expected --out FILE.h5");
  if (is_image_dataset(options.name)) return run_images(options, context);
  const DatasetSummary made = build(options);
  for (const std::string& warning : made.warnings) fmt::print(stderr, "warning: {}\n", warning);
  fmt::print("{}: {}, vocabulary {}, checksum {}\n", made.out, made.tokenizer, made.vocab_size,
             made.checksum);
  nlohmann::json splits = nlohmann::json::object();
  for (const auto& split : made.splits) {
    fmt::print("  {:<6} {:>8} documents {:>10} tokens\n", split.name, split.documents,
               split.tokens);
    splits[split.name] = {{"documents", split.documents}, {"tokens", split.tokens}};
  }
  write_command_json(context, "data", nlohmann::json::object(),
                     {{"name", made.name},
                      {"out", made.out},
                      {"tokenizer", made.tokenizer},
                      {"vocab_size", made.vocab_size},
                      {"checksum", made.checksum},
                      {"splits", splits},
                      {"bytes", made.text.bytes},
                      {"lines", made.text.lines},
                      {"empty_lines", made.text.empty_lines},
                      {"replaced_bytes", made.text.replaced},
                      {"warnings", made.warnings}});
  return 0;
}

}  // namespace

void add_data_command(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("data", "build a data set (see --list)");
  command->add_option("name", o->name, "which one: see --list")->type_name("NAME");
  command->add_option("--out", o->out, "file to write")->type_name("FILE.h5");
  command->add_flag("--list", o->list, "list what can be built");
  command->add_option("--input", o->input, "text: UTF-8 files")->type_name("FILES");
  command
      ->add_option("--documents", o->documents,
                   "text: one document a line | blank_line | file (default line)")
      ->type_name("KIND");
  command->add_flag("--replace-invalid", o->replace_invalid,
                    "text: bytes that are not UTF-8 become U+FFFD and are counted");
  command->add_option("--folder", o->folder,
                      "where the source lies (default: where its Debian package puts it)");
  command->add_option("--max-documents", o->max_documents, "wordnet_lm: first documents; 0: all")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--tokenizer", o->tokenizer.kind, "bytes, or bpe (GPT-2's; needs both files)")
      ->check(CLI::IsMember({"bytes", "bpe"}));
  command->add_option("--vocab", o->tokenizer.vocab_json, "bpe: vocab.json");
  command->add_option("--merges", o->tokenizer.merges_txt, "bpe: merges.txt");
  command->add_option("--val", o->split.val, "part of the documents (default 0.05)")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--test", o->split.test, "part of the documents (default 0.05)")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--split-seed", o->split.seed, "which documents go where (default 1)");
  command->callback([o, &context] { context.exit_code = run_data(*o, context); });
}

}  // namespace cbwc
