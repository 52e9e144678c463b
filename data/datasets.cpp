#include "data/datasets.h"

#include <filesystem>
#include <functional>

#include "core/check.h"
#include "data/hash.h"
#include "data/image_datasets.h"
#include "data/token_file.h"

namespace cbwc {
namespace {

constexpr std::array<const char*, 3> kSplits = {"train", "val", "test"};
constexpr std::array<const char*, 4> kWordnetFiles = {"data.noun", "data.verb", "data.adj",
                                                      "data.adv"};

void check_split(const SplitOptions& split) {
  CBWC_CHECK(split.val >= 0 && split.test >= 0 && split.val + split.test < 1,
             "data: the fractions val ", split.val, " and test ", split.test,
             " must be at least 0 and leave something to train on");
}

const char* split_of(const std::string& document, const SplitOptions& split) {
  const double u =
      static_cast<double>(hash64(document.data(), document.size(), split.seed) >> 11) * 0x1p-53;
  if (u < split.val) return "val";
  return u < split.val + split.test ? "test" : "train";
}

void add_document(TokenFile& file, const std::string& document, const SplitOptions& split) {
  std::vector<int32_t> ids = file.tokenizer().encode(document);
  ids.push_back(file.tokenizer().end_of_document());
  file.writable_split(split_of(document, split)).append(ids, file.vocab_size());
}

DatasetSummary finish(const TokenFile& file, const std::string& name, const std::string& out,
                      const TextCounts& counts, const SplitOptions& split) {
  CBWC_CHECK(counts.documents > 0, name, ": no document was found in the input");
  file.write(out);
  DatasetSummary summary{
      name, out, file.tokenizer().kind(), file.checksum(), file.vocab_size(), counts, {}, {}};
  for (size_t i = 0; i < kSplits.size(); ++i) {
    const auto tokens = file.split(kSplits[i]);
    summary.splits[i] = {kSplits[i], tokens->documents(), tokens->size()};
    const bool wanted = i == 0 || (i == 1 ? split.val : split.test) > 0;
    if (wanted && tokens->size() == 0)
      summary.warnings.push_back(fmt::format(
          "no document fell into {}: {} documents are few; use shorter ones or more text",
          kSplits[i], counts.documents));
  }
  if (counts.replaced > 0)
    summary.warnings.push_back(
        fmt::format("{} bytes that are not UTF-8 were replaced by U+FFFD", counts.replaced));
  return summary;
}

const char* part_of_speech(const std::string& type) {
  if (type == "n") return "noun";
  if (type == "v") return "verb";
  if (type == "r") return "adverb";
  return "adjective";  // "a", and "s" for satellites
}

// "00001740 03 n 01 entity 0 003 ... | gloss" (wndb(5WN)) to "entity (noun): gloss".
std::string synset_text(const std::string& line, const std::string& where) {
  const auto need = [&](bool ok) {
    CBWC_CHECK(ok, where, ": not a WordNet synset: '", line.substr(0, 60), "'");
  };
  const size_t bar = line.find(" | ");
  need(bar != std::string::npos);
  std::istringstream fields(line.substr(0, bar));
  std::string offset, file, type, word, lex_id, words;
  int count = 0;
  fields >> offset >> file >> type >> std::hex >> count;
  need(!fields.fail() && count > 0);
  for (int i = 0; i < count; ++i) {
    fields >> word >> lex_id;
    need(!fields.fail());
    if (word.back() == ')') word.resize(word.rfind('('));  // syntactic marker: "galore(ip)"
    for (char& c : word)
      if (c == '_') c = ' ';
    words += (i ? ", " : "") + word;
  }
  std::string gloss = line.substr(bar + 3);
  gloss.erase(gloss.find_last_not_of(" \r") + 1);
  return words + " (" + part_of_speech(type) + "): " + gloss;
}

void each_line(const std::string& text, const std::function<bool(const std::string&, int64_t)>& f) {
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (!f(text.substr(begin, end - begin), ++number)) return;
    begin = end + 1;
  }
}

}  // namespace

std::vector<DatasetInfo> list_datasets() {
  std::vector<DatasetInfo> all = {
      {"wordnet_lm",
       "glosses and examples of WordNet 3.0, one synset a document (9 MB of real English)",
       "the Debian package wordnet-base (apt-get install wordnet-base)"},
      {"text", "your own UTF-8 text files", "--input FILES"}};
  for (const DatasetInfo& info : list_image_datasets()) all.push_back(info);
  return all;
}

Tokenizer make_tokenizer(const TokenizerOptions& options) {
  if (options.kind == "bytes") return Tokenizer::bytes();
  CBWC_CHECK(options.kind == "bpe" || options.kind == "gpt2_bpe", "tokenizer: '", options.kind,
             "' is not one of bytes, bpe");
  CBWC_CHECK(!options.vocab_json.empty() && !options.merges_txt.empty(),
             "tokenizer: bpe needs GPT-2's vocab.json and merges.txt");
  return Tokenizer::gpt2(options.vocab_json, options.merges_txt);
}

DatasetSummary build_wordnet_lm(const WordnetOptions& options) {
  check_split(options.split);
  for (const char* name : kWordnetFiles)
    CBWC_CHECK(std::filesystem::exists(std::filesystem::path(options.folder) / name),
               "wordnet_lm: there is no ", name, " in ", options.folder,
               ". Install it with: apt-get install wordnet-base");
  TokenFile file(make_tokenizer(options.tokenizer),
                 "WordNet glosses and examples from " + options.folder);
  TextCounts counts;
  for (const char* name : kWordnetFiles) {
    const std::string path = (std::filesystem::path(options.folder) / name).string();
    const std::string content = read_file(path);
    counts.bytes += static_cast<int64_t>(content.size());
    each_line(content, [&](const std::string& line, int64_t number) {
      if (options.max_documents > 0 && counts.documents >= options.max_documents) return false;
      ++counts.lines;
      if (line.empty()) ++counts.empty_lines;
      if (line.empty() || line[0] == ' ') return true;  // the licence at the top is indented
      const std::string where = path + " line " + std::to_string(number);
      const std::string document = synset_text(line, where);
      CBWC_CHECK(invalid_utf8(document) == std::string::npos, where, ": not UTF-8");
      add_document(file, document, options.split);
      ++counts.documents;
      return true;
    });
  }
  return finish(file, "wordnet_lm", options.out, counts, options.split);
}

DatasetSummary build_text(const std::vector<std::string>& files, const BuildTextOptions& options) {
  check_split(options.split);
  CBWC_CHECK(!files.empty(), "text: no input file was given (--input FILES)");
  std::string description = "text of";
  for (const std::string& path : files) description += " " + path;
  TokenFile file(make_tokenizer(options.tokenizer), description);
  TextCounts counts;
  for (const std::string& path : files)
    for (const std::string& document : split_documents(read_file(path), path, options.text, counts))
      add_document(file, document, options.split);
  return finish(file, "text", options.out, counts, options.split);
}

}  // namespace cbwc
