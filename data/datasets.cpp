#include "data/datasets.h"

#include <unordered_set>

#include "core/check.h"
#include "data/dataset_parts.h"
#include "data/image_datasets.h"
#include "data/token_file.h"
#include "data/wordnet.h"

namespace cbwc {
namespace {

void add_document(TokenFile& file, const std::string& document, const SplitOptions& split) {
  std::vector<int32_t> ids = file.tokenizer().encode(document);
  ids.push_back(file.tokenizer().end_of_document());
  file.writable_split(split_for(document, split)).append(ids, file.vocab_size());
}

DatasetSummary finish(TokenFile& file, const std::string& name, const std::string& out,
                      const std::vector<std::string>& documents, TextCounts counts,
                      const TokenizerOptions& tokenizer, const SplitOptions& split) {
  counts.documents = static_cast<int64_t>(documents.size());
  std::unordered_set<std::string> different;
  for (const std::string& document : documents) {
    different.insert(document);
    add_document(file, document, split);
  }
  file.write(out);
  DatasetSummary summary;
  summary.name = name;
  summary.out = out;
  summary.tokenizer = file.tokenizer().kind();
  summary.checksum = file.checksum();
  summary.vocab_size = file.vocab_size();
  summary.text = counts;
  for (size_t i = 0; i < kSplitNames.size(); ++i) {
    const auto tokens = file.split(kSplitNames[i]);
    summary.splits[i] = {kSplitNames[i], tokens->documents(), tokens->size()};
  }
  add_vocabulary_warning(summary, tokenizer, "the vocabulary", file.tokenizer().vocab_size());
  add_warnings(summary, counts, split, "texts", std::ssize(different));
  return summary;
}

// Made from the training documents where the options do not name a finished one.
Tokenizer tokenizer_for(const TokenizerOptions& options, const SplitOptions& split,
                        const std::vector<std::string>& documents) {
  if (!needs_training(options)) return make_tokenizer(options);
  std::vector<std::string> texts;
  for (const std::string& document : documents)
    if (split_for(document, split) == std::string(kSplitNames[0])) texts.push_back(document);
  return make_tokenizer(options, texts);
}

// "entity, thing (noun): gloss"
std::string synset_text(const Synset& synset) {
  std::string words;
  for (const std::string& word : synset.words) words += (words.empty() ? "" : ", ") + word;
  return words + " (" + synset.part_of_speech + "): " + synset.gloss;
}

}  // namespace

std::vector<DatasetInfo> list_datasets() {
  std::vector<DatasetInfo> all = {
      {"wordnet_lm",
       "glosses and examples of WordNet 3.0, one synset a document (9 MB of real English)",
       "the Debian package wordnet-base (apt-get install wordnet-base)"},
      {"text", "your own UTF-8 text files", "--input FILES"}};
  for (const DatasetInfo& info : list_sequence_datasets()) all.push_back(info);
  for (const DatasetInfo& info : list_image_datasets()) all.push_back(info);
  return all;
}

DatasetSummary build_wordnet_lm(const WordnetOptions& options) {
  check_split(options.split);
  std::vector<std::string> documents;
  const WordnetCounts read = each_synset(options.folder, "wordnet_lm", [&](const Synset& synset) {
    const auto count = static_cast<int64_t>(documents.size());
    if (options.max_documents > 0 && count >= options.max_documents) return false;
    documents.push_back(synset_text(synset));
    return true;
  });
  CBWC_CHECK(!documents.empty(), "wordnet_lm: no document was found in the input");
  TokenFile file(tokenizer_for(options.tokenizer, options.split, documents),
                 "WordNet glosses and examples from " + options.folder);
  TextCounts counts;
  counts.bytes = read.bytes;
  counts.lines = read.lines;
  counts.empty_lines = read.empty_lines;
  return finish(file, "wordnet_lm", options.out, documents, counts, options.tokenizer,
                options.split);
}

DatasetSummary build_text(const std::vector<std::string>& files, const BuildTextOptions& options) {
  check_split(options.split);
  CBWC_CHECK(!files.empty(), "text: no input file was given (--input FILES)");
  std::string description = "text of";
  for (const std::string& path : files) description += " " + path;
  TextCounts counts;
  std::vector<std::string> documents;
  for (const std::string& path : files)
    for (std::string& document : split_documents(read_file(path), path, options.text, counts))
      documents.push_back(std::move(document));
  CBWC_CHECK(!documents.empty(), "text: no document was found in the input");
  TokenFile file(tokenizer_for(options.tokenizer, options.split, documents), description);
  return finish(file, "text", options.out, documents, counts, options.tokenizer, options.split);
}

}  // namespace cbwc
