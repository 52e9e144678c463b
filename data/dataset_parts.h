// What the builders of data sets share. Private to data/*.cpp.
#pragma once
#include <functional>
#include <map>
#include <unordered_set>

#include "data/sequence_datasets.h"
#include "data/sequence_file.h"

namespace cbwc {

void check_split(const SplitOptions& split);
// "train", "val" or "test": a seeded hash of the key, so that equal keys stay together.
const char* split_for(const std::string& key, const SplitOptions& split);

// f(line, its number from 1) until it returns false.
void each_line(const std::string& text, const std::function<bool(const std::string&, int64_t)>& f);

// "no sample fell into val: ..." with the reason. `things`: what the split counts, in the plural;
// `keys`: what its hash is made of, `different` of them.
std::string empty_split_warning(const std::string& split, const std::string& things, int64_t count,
                                const std::string& keys, int64_t different);
// Warnings that every summary has: empty splits, replaced bytes.
void add_warnings(DatasetSummary& summary, const TextCounts& counts, const SplitOptions& split,
                  const std::string& keys, int64_t different);
// Where a tokenizer was made and has fewer tokens than it might.
void add_vocabulary_warning(DatasetSummary& summary, const TokenizerOptions& options,
                            const std::string& what, int64_t made);

// One input of a data set: its files, and the split that all of it goes to ("": by the hash).
struct SequenceInput {
  std::string split;
  std::vector<std::string> files;
};

// Collects samples, then makes the tokenizers from the training texts where they are not given,
// and writes the file.
class SequenceBuilder {
 public:
  SequenceBuilder(std::string name, SequenceKind kind, SequenceBuildOptions options);
  // Error when there is no input, or an input is not `files` files (0: any number).
  std::vector<SequenceInput> inputs(size_t files) const;
  TextOptions text_options() const;
  // The split is chosen by `key`. False once max_samples of this input are there: then nothing is
  // added.
  bool add(const SequenceInput& input, const std::string& key, SequenceSample sample);
  int64_t samples() const { return static_cast<int64_t>(samples_.size()); }

  std::string description;           // where the text came from
  std::vector<std::string> classes;  // classification
  bool with_second = false;          // set for pairs and instructions
  bool two_tokenizers = false;       // pairs: one for each language
  std::string keys = "texts";        // what the keys of add() are, for messages
  std::vector<std::string> warnings;
  TextCounts counts;
  std::vector<std::pair<std::string, int64_t>> facts;  // for the summary
  DatasetSummary finish();

 private:
  Tokenizer tokenizer(bool first, bool second) const;  // made from these texts where it is made
  void add_class_warnings(DatasetSummary& summary) const;
  std::string name_;
  SequenceKind kind_;
  SequenceBuildOptions options_;
  std::vector<std::pair<std::string, SequenceSample>> samples_;
  std::map<std::string, int64_t> taken_;  // by the input's split
  std::unordered_set<std::string> keys_;  // of the samples that a hash put into a split
};

}  // namespace cbwc
