// WordNet's database files (wndb(5WN)).
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace cbwc {

inline constexpr int kLexicographerFiles = 45;
// "adj.all", "noun.Tops", ...: the name of each lexicographer file (lexnames(5WN)).
const std::vector<std::string>& lexicographer_files();

struct Synset {
  int file = 0;                    // of the lexicographer files
  std::string part_of_speech;      // noun, verb, adjective, adverb
  std::vector<std::string> words;  // with spaces, without syntactic markers
  std::string gloss;               // definition and examples: `a concept; "an example"`
};

// line: "00001740 03 n 01 entity 0 003 ... | gloss". Error beginning with `where`.
Synset parse_synset(const std::string& line, const std::string& where);

// The definition, and the quoted examples behind it.
struct Gloss {
  std::string definition;
  std::vector<std::string> examples;
};
Gloss split_gloss(const std::string& gloss);

struct WordnetCounts {
  int64_t bytes = 0, lines = 0, empty_lines = 0, synsets = 0;
};
// Every synset of data.noun, data.verb, data.adj and data.adv in `folder`, until f returns false.
// Error when a file is missing (with the package that has it) or damaged (file and line).
WordnetCounts each_synset(const std::string& folder, const std::string& dataset,
                          const std::function<bool(const Synset&)>& f);

}  // namespace cbwc
