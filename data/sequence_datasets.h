// Builders of sequence files (data/sequence_file.h): texts with classes, pairs of texts,
// instructions.
#pragma once
#include "data/datasets.h"

namespace cbwc {

struct SequenceBuildOptions {
  std::string out = {};
  TokenizerOptions tokenizer = {};
  SplitOptions split = {};       // of `input`; for the splits that have no input of their own
  int64_t max_samples = 0;       // 0: all; else the first ones of each input
  bool replace_invalid = false;  // as TextOptions
  // The user's files, where the data set is made from them.
  std::vector<std::string> input = {}, val_input = {}, test_input = {};
};

// Glosses with their 45 lexicographer files as classes. Equal glosses share a split.
DatasetSummary build_wordnet_classes(const std::string& folder,
                                     const SequenceBuildOptions& options);

// Columns are named by number, from 1, or by name where there is a header or the file is JSON
// lines.
struct LabelledTextOptions {
  std::string label = {};               // empty: 1, or "label"
  std::vector<std::string> texts = {};  // joined by a space; empty: all others, or "text"
  std::string second = {};              // a second text of each sample (BERT's segment B)
  bool header = false;                  // of .csv and .tsv: the first line names the columns
};
// .csv (RFC 4180; AG News's "class","title","description" with the defaults), .tsv, .jsonl. The
// classes are the labels found, without blanks around them, in order (of numbers, if all are).
// Equal texts share a split. Error: one class only, a text column that is the label's, and a first
// line that looks like a header (Note [Header without --header]). Warnings: classes that no
// training sample has, more classes than half of the rows.
DatasetSummary build_labelled_text(const LabelledTextOptions& layout,
                                   const SequenceBuildOptions& options);

// The World English Bible and the Reina-Valera of 1909: pairs with the same book, chapter and
// verse, whole chapters to a split.
DatasetSummary build_web_sparv(bool two_tokenizers, const SequenceBuildOptions& options);
// Two files, line n of one being the translation of line n of the other. Equal sources share a
// split. Pairs with an empty side are left out and counted.
DatasetSummary build_parallel_text(bool two_tokenizers, const SequenceBuildOptions& options);

// Records of instruction, input (may be empty or absent) and output: a JSON array, or JSON lines.
// The prompt is Alpaca's. Records without an output are left out and counted.
DatasetSummary build_instructions(const SequenceBuildOptions& options);
// One such record for each synset of WordNet: define a word, name the word for a meaning, give a
// synonym, use a word in a sentence, name a part of speech. Equal glosses share a split.
DatasetSummary build_wordnet_instructions(const std::string& folder,
                                          const SequenceBuildOptions& options);

std::vector<DatasetInfo> list_sequence_datasets();

}  // namespace cbwc
