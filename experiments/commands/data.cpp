// cbwc data NAME --out FILE.h5: builds a data file from what is on the machine.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "data/atomic_file.h"
#include "data/datasets.h"
#include "data/image_datasets.h"
#include "data/sequence_datasets.h"
#include "data/sequence_file.h"
#include "experiments/command.h"
#include "experiments/json_output.h"
#include "experiments/out_path.h"

namespace cbwc {
namespace {

struct Options {
  std::string name, out, folder, documents = "line", vocab, write_vocab, bad_images = "error";
  std::vector<std::string> input, val_input, test_input;
  LabelledTextOptions layout;
  TokenizerOptions tokenizer;
  SplitOptions split;
  bool list = false, replace_invalid = false, cased = false, two_tokenizers = false;
  bool recursive = false;
  int64_t max_documents = 0;
};

// --vocab is the one file of wordpiece and the first of bpe's two.
TokenizerOptions tokenizer_of(const Options& options) {
  TokenizerOptions tokenizer = options.tokenizer;
  (tokenizer.kind == "wordpiece" ? tokenizer.vocab_txt : tokenizer.vocab_json) = options.vocab;
  tokenizer.lower_case = !options.cased;
  return tokenizer;
}

SequenceBuildOptions sequence_options(const Options& options) {
  return {.out = options.out,
          .tokenizer = tokenizer_of(options),
          .split = options.split,
          .max_samples = options.max_documents,
          .replace_invalid = options.replace_invalid,
          .input = options.input,
          .val_input = options.val_input,
          .test_input = options.test_input};
}

int list_all(const CommandContext& context) {
  nlohmann::json all = nlohmann::json::array();
  for (const DatasetInfo& info : list_datasets()) {
    fmt::print("{:<20} {} (needs: {})\n", info.name, info.description, info.requires_);
    all.push_back(
        {{"name", info.name}, {"description", info.description}, {"needs", info.requires_}});
  }
  write_command_json(context, "data", nlohmann::json::object(), {{"datasets", all}});
  return 0;
}

using Names = std::vector<std::string>;

bool is_in(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What reads an option: every other data set refuses it.
struct Reader {
  Names options, sets;
};

std::vector<Reader> readers() {
  const Names own = {"labelled_text", "parallel_text", "instructions"};
  const Names wordnet = {"wordnet_lm", "wordnet_classes", "wordnet_instructions"};
  const auto with = [](Names names, const Names& more) {
    names.insert(names.end(), more.begin(), more.end());
    return names;
  };
  const Names sequences = with(with(own, wordnet), {"web_sparv"});
  const Names texts = with(sequences, {"text"});
  return {{{"--input", "--replace-invalid"}, with({"text"}, own)},
          {{"--val-input", "--test-input"}, own},
          {{"--documents"}, {"text"}},
          {{"--label", "--text", "--second", "--header"}, {"labelled_text"}},
          {{"--two-tokenizers"}, {"web_sparv", "parallel_text"}},
          {{"--folder"}, with(wordnet, {"fashion_mnist", "image_folder", "openclipart"})},
          {{"--bad-images"}, {"image_folder", "openclipart"}},
          {{"--recursive"}, {"image_folder"}},
          {{"--max-documents"}, sequences},
          {{"--tokenizer", "--vocab", "--merges", "--write-vocab", "--cased", "--model",
            "--model-type", "--vocab-size"},
           texts},
          {{"--val", "--test"}, with(texts, {"image_folder", "openclipart"})}};
}

// The same of tokenizers. A finished model or vocabulary has its own type and size.
std::vector<Reader> tokenizer_readers(const Options& options) {
  const bool made = options.vocab.empty() && options.tokenizer.model.empty();
  return {{{"--vocab"}, {"bpe", "wordpiece"}},
          {{"--merges"}, {"bpe"}},
          {{"--write-vocab", "--cased"}, {"wordpiece"}},
          {{"--model"}, {"sentencepiece"}},
          {{"--model-type"}, made ? Names{"sentencepiece"} : Names{}},
          {{"--vocab-size"}, made ? Names{"wordpiece", "sentencepiece"} : Names{}}};
}

void refuse_unread(const CommandLine& command, const Options& options) {
  for (const Reader& reader : readers())
    for (const std::string& option : reader.options)
      CBWC_CHECK(command.count(option) == 0 || is_in(reader.sets, options.name), "data ",
                 options.name, ": ", option, " is for ",
                 fmt::format("{}", fmt::join(reader.sets, ", ")));
  const auto one_source = [&](const char* part, double value, const Names& files) {
    CBWC_CHECK(command.count(part) == 0 || value == 0 || files.empty(), "data ", options.name, ": ",
               part, " takes a part of --input, which ", part, "-input replaces; give one of them");
  };
  one_source("--val", options.split.val, options.val_input);
  one_source("--test", options.split.test, options.test_input);
  const std::string& kind = options.tokenizer.kind;
  for (const Reader& reader : tokenizer_readers(options))
    for (const std::string& option : reader.options) {
      if (command.count(option) == 0 || is_in(reader.sets, kind)) continue;
      CBWC_CHECK(!reader.sets.empty(), "data ", options.name, ": ", option,
                 " is for a tokenizer that is made, not for --model or --vocab");
      detail::fail("data ", options.name, ": ", option, " is for --tokenizer ",
                   fmt::format("{}", fmt::join(reader.sets, " or ")), ", not ", kind);
    }
}

std::string wordnet_folder(const Options& options) {
  return options.folder.empty() ? "/usr/share/wordnet" : options.folder;
}

DatasetSummary build_wordnet(const Options& options) {
  return build_wordnet_lm({.out = options.out,
                           .folder = wordnet_folder(options),
                           .tokenizer = tokenizer_of(options),
                           .split = options.split,
                           .max_documents = options.max_documents});
}

DatasetSummary build_own_text(const Options& options) {
  CBWC_CHECK(!options.input.empty(), "data text: expected --input FILES");
  BuildTextOptions text;
  text.out = options.out;
  text.text.documents = parse_documents(options.documents);
  text.text.replace_invalid = options.replace_invalid;
  text.tokenizer = tokenizer_of(options);
  text.split = options.split;
  return build_text(options.input, text);
}

using Builder = DatasetSummary (*)(const Options&);

std::map<std::string, Builder> builders() {
  return {
      {"wordnet_lm", build_wordnet},
      {"text", build_own_text},
      {"wordnet_classes",
       [](const Options& o) {
         return build_wordnet_classes(wordnet_folder(o), sequence_options(o));
       }},
      {"wordnet_instructions",
       [](const Options& o) {
         return build_wordnet_instructions(wordnet_folder(o), sequence_options(o));
       }},
      {"web_sparv",
       [](const Options& o) { return build_web_sparv(o.two_tokenizers, sequence_options(o)); }},
      {"labelled_text",
       [](const Options& o) { return build_labelled_text(o.layout, sequence_options(o)); }},
      {"parallel_text",
       [](const Options& o) { return build_parallel_text(o.two_tokenizers, sequence_options(o)); }},
      {"instructions", [](const Options& o) { return build_instructions(sequence_options(o)); }}};
}

void check_name(const std::string& name) {
  Names known;
  for (const DatasetInfo& info : list_datasets()) known.push_back(info.name);
  CBWC_CHECK(is_in(known, name), "data: unknown data set '", name,
             "'; known: ", fmt::format("{}", fmt::join(known, ", ")));
}

int run_images(const Options& options, const CommandContext& context) {
  const ImageSummary made = build_image_dataset(options.name, {.out = options.out,
                                                               .folder = options.folder,
                                                               .split = options.split,
                                                               .bad_images = options.bad_images,
                                                               .recursive = options.recursive});
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

// One token a line, as BERT's vocab.txt, for other data sets (--vocab).
void write_vocab(const Options& options) {
  const Tokenizer tokenizer = stored_tokenizer(options.out);
  std::string text;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) text += tokenizer.piece(id) + '\n';
  AtomicFile file(options.write_vocab, text.size());
  std::ofstream out(file.temporary(), std::ios::binary);
  if (!out.write(text.data(), static_cast<std::streamsize>(text.size())).flush())
    throw RunError(options.write_vocab + ": cannot write");
  out.close();
  file.commit();
}

int run_data(const Options& options, const CommandLine& command, const CommandContext& context) {
  if (options.list) return list_all(context);
  CBWC_CHECK(!options.name.empty(), "data: expected NAME (see cbwc data --list)");
  check_name(options.name);
  refuse_unread(command, options);
  CBWC_CHECK(!options.out.empty(), "data: expected --out FILE.h5");
  check_can_write(options.out, kDataFile);
  if (std::filesystem::exists(options.out))
    fmt::print(stderr, "warning: {} is there already: the new file will replace it\n", options.out);
  if (!options.write_vocab.empty()) check_can_write(options.write_vocab, kVocabulary);
  if (is_image_dataset(options.name)) return run_images(options, context);
  const DatasetSummary made = builders().at(options.name)(options);
  if (!options.write_vocab.empty()) write_vocab(options);
  for (const std::string& warning : made.warnings) fmt::print(stderr, "warning: {}\n", warning);
  fmt::print("{}: {}, vocabulary {}, checksum {}\n", made.out, made.tokenizer, made.vocab_size,
             made.checksum);
  nlohmann::json splits = nlohmann::json::object();
  for (const auto& split : made.splits) {
    fmt::print("  {:<6} {:>8} {} {:>10} tokens\n", split.name, split.documents, made.unit,
               split.tokens);
    splits[split.name] = {{made.unit, split.documents}, {"tokens", split.tokens}};
  }
  nlohmann::json facts = nlohmann::json::object();
  for (const auto& [name, count] : made.facts) {
    fmt::print("  {}: {}\n", name, count);
    facts[name] = count;
  }
  write_command_json(context, "data", nlohmann::json::object(),
                     {{"name", made.name},
                      {"out", made.out},
                      {"tokenizer", made.tokenizer},
                      {"vocab_size", made.vocab_size},
                      {"checksum", made.checksum},
                      {"splits", splits},
                      {"facts", facts},
                      {"bytes", made.text.bytes},
                      {"lines", made.text.lines},
                      {"empty_lines", made.text.empty_lines},
                      {"replaced_bytes", made.text.replaced},
                      {"warnings", made.warnings}});
  return 0;
}

void add_layout_options(CommandLine command, Options& o) {
  command.add_option("--label", o.layout.label,
                     "labelled_text: the class's column, a number from 1 or a name (default 1; "
                     "JSON: label)");
  command.add_option("--text", o.layout.texts,
                     "labelled_text: columns of the text, joined (default all others; JSON: text)");
  command.add_option("--second", o.layout.second,
                     "labelled_text: column of a second text (default none)");
  command.add_flag("--header", o.layout.header, "labelled_text: the first line names the columns");
  command.add_flag("--two-tokenizers", o.two_tokenizers,
                   "web_sparv, parallel_text: one tokenizer for each language");
}

void add_tokenizer_options(CommandLine command, Options& o) {
  command
      .add_option("--tokenizer", o.tokenizer.kind,
                  "bytes | bpe (GPT-2's; needs both files) | wordpiece | sentencepiece; the last "
                  "two are made from the training texts where no file is given (default bytes)")
      .check(one_of({"bytes", "bpe", "wordpiece", "sentencepiece"}));
  command.add_option("--vocab", o.vocab, "bpe: vocab.json; wordpiece: vocab.txt");
  command.add_option("--merges", o.tokenizer.merges_txt, "bpe: merges.txt");
  command
      .add_option("--write-vocab", o.write_vocab,
                  "wordpiece: also write its vocab.txt, for --vocab of other data sets")
      .type_name("FILE");
  command.add_flag("--cased", o.cased, "wordpiece: keep capitals and accents");
  command.add_option("--model", o.tokenizer.model, "sentencepiece: a .model file");
  command
      .add_option("--model-type", o.tokenizer.model_type,
                  "sentencepiece that is made: unigram | bpe (default unigram)")
      .check(one_of({"unigram", "bpe"}));
  command
      .add_option("--vocab-size", o.tokenizer.vocab_size,
                  "tokens of one that is made (default 8000)")
      .check(at_least(1));
}

}  // namespace

void add_data_command(CommandLine app, CommandContext& context) {
  auto o = std::make_shared<Options>();
  CommandLine command = app.add_subcommand("data", "build a data set (see --list)");
  command.add_option("name", o->name, "which one: see --list").type_name("NAME");
  command.add_option("--out", o->out, "file to write").type_name("FILE.h5");
  command.add_flag("--list", o->list, "list what can be built");
  command.add_option("--input", o->input, "your own UTF-8 files; parallel_text: source, target")
      .type_name("FILES");
  command
      .add_option("--val-input", o->val_input,
                  "files of the val split (default: a part of --input); not for text")
      .type_name("FILES");
  command.add_option("--test-input", o->test_input, "the same of the test split")
      .type_name("FILES");
  command
      .add_option("--documents", o->documents,
                  "text: one document a line | blank_line | file (default line)")
      .type_name("KIND");
  command.add_flag("--replace-invalid", o->replace_invalid,
                   "your own files: bytes that are not UTF-8 become U+FFFD and are counted");
  add_layout_options(command, *o);
  command.add_option("--folder", o->folder,
                     "where the source lies (default: where its Debian package puts it)");
  command
      .add_option("--bad-images", o->bad_images,
                  "images that cannot be decoded: error, skip (left out and counted) or keep "
                  "(not looked at while building); default error")
      .check(one_of({"error", "skip", "keep"}));
  command.add_flag("--recursive", o->recursive,
                   "image_folder: images in sub-folders of a class folder belong to it");
  command
      .add_option("--max-documents", o->max_documents,
                  "the first documents or samples only (default 0: all)")
      .check(at_least(0));
  add_tokenizer_options(command, *o);
  command.add_option("--val", o->split.val, "part of the documents (default 0.05)")
      .check(between(0, 1));
  command.add_option("--test", o->split.test, "part of the documents (default 0.05)")
      .check(between(0, 1));
  command.add_option("--split-seed", o->split.seed, "which documents go where (default 1)")
      .check(at_least(0));
  command.callback([o, command, &context] { context.exit_code = run_data(*o, command, context); });
}

}  // namespace cbwc
