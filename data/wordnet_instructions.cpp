#include "data/dataset_parts.h"
#include "data/hash.h"
#include "data/instructions.h"
#include "data/wordnet.h"

namespace cbwc {
namespace {

struct Record {
  std::string instruction, input, output;
};

// What can be asked of this synset: the answers are WordNet's own words.
std::vector<Record> records_of(const Synset& synset, const Gloss& gloss) {
  const std::string &word = synset.words[0], &kind = synset.part_of_speech;
  const std::string quoted = "\"" + word + "\"";
  std::vector<Record> records = {
      {"Define the " + kind + " " + quoted + ".", "", gloss.definition},
      {"Which " + kind + " has the following meaning?", gloss.definition, word},
      {"Which part of speech is " + quoted + " when it has the following meaning?",
       gloss.definition, kind}};
  if (synset.words.size() > 1)
    records.push_back({"Give another " + kind + " for " + quoted + " in the following meaning.",
                       gloss.definition, synset.words[1]});
  for (const std::string& example : gloss.examples)
    if (example.find(word) != std::string::npos) {
      records.push_back(
          {"Use the " + kind + " " + quoted + " in a sentence, in the following meaning.",
           gloss.definition, example});
      break;
    }
  return records;
}

}  // namespace

DatasetSummary build_wordnet_instructions(const std::string& folder,
                                          const SequenceBuildOptions& options) {
  SequenceBuilder builder("wordnet_instructions", SequenceKind::instructions, options);
  builder.description = "instructions made from WordNet's words and glosses, from " + folder;
  int64_t empty = 0;
  const WordnetCounts counts =
      each_synset(folder, "wordnet_instructions", [&](const Synset& synset) {
        const Gloss gloss = split_gloss(synset.gloss);
        if (gloss.definition.empty()) {
          ++empty;
          return true;
        }
        const std::vector<Record> records = records_of(synset, gloss);
        const std::string key = synset.words[0] + "\n" + synset.gloss;
        // One record of each synset, so that no answer stands in another record's prompt.
        const Record& record = records[hash64(key.data(), key.size()) % records.size()];
        return builder.add({}, synset.gloss,
                           {.first = instruction_prompt(record.instruction, record.input),
                            .second = record.output});
      });
  builder.counts.bytes = counts.bytes;
  builder.counts.lines = counts.lines;
  builder.counts.empty_lines = counts.empty_lines;
  builder.facts = {{"synsets without a definition, left out", empty}};
  return builder.finish();
}

}  // namespace cbwc
