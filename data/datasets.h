// What `cbwc data` can build: each builder writes one data file and returns what it did.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/text.h"
#include "data/tokenizer_options.h"

namespace cbwc {

struct DatasetInfo {
  std::string name, description, requires_;  // requires_: what must be installed or given
};
std::vector<DatasetInfo> list_datasets();

// Documents go to a split by a seeded hash of their text, so equal documents never cross splits.
struct SplitOptions {
  double val = 0.05, test = 0.05;  // fractions of the documents; the rest is for training
  uint64_t seed = 1;
};

struct WordnetOptions {
  std::string out;
  std::string folder = "/usr/share/wordnet";
  TokenizerOptions tokenizer;
  SplitOptions split;
  int64_t max_documents = 0;  // 0: all; else the first ones
};

struct BuildTextOptions {
  std::string out;
  TextOptions text;
  TokenizerOptions tokenizer;
  SplitOptions split;
};

struct DatasetSummary {
  std::string name, out, tokenizer, checksum;
  int64_t vocab_size = 0;
  TextCounts text;
  struct Split {
    std::string name;
    int64_t documents = 0, tokens = 0;
  };
  std::array<Split, 3> splits;
  std::vector<std::string> warnings;                   // e.g. an empty split, replaced bytes
  std::string unit = "documents";                      // what the splits count
  std::vector<std::pair<std::string, int64_t>> facts;  // what else was counted
};

// Token files. Glosses and examples of WordNet: one document a synset, "word, other word (noun):
// gloss; examples".
DatasetSummary build_wordnet_lm(const WordnetOptions& options);
DatasetSummary build_text(const std::vector<std::string>& files, const BuildTextOptions& options);

}  // namespace cbwc
