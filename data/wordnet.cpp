#include "data/wordnet.h"

#include <array>
#include <filesystem>
#include <sstream>

#include "core/check.h"
#include "data/dataset_parts.h"
#include "data/text.h"

namespace cbwc {
namespace {

constexpr std::array<const char*, 4> kFiles = {"data.noun", "data.verb", "data.adj", "data.adv"};

const char* part_of_speech(const std::string& type) {
  if (type == "n") return "noun";
  if (type == "v") return "verb";
  if (type == "r") return "adverb";
  return "adjective";  // "a", and "s" for satellites
}

}  // namespace

const std::vector<std::string>& lexicographer_files() {
  static const std::vector<std::string> names = {
      "adj.all",          "adj.pert",           "adv.all",
      "noun.Tops",        "noun.act",           "noun.animal",
      "noun.artifact",    "noun.attribute",     "noun.body",
      "noun.cognition",   "noun.communication", "noun.event",
      "noun.feeling",     "noun.food",          "noun.group",
      "noun.location",    "noun.motive",        "noun.object",
      "noun.person",      "noun.phenomenon",    "noun.plant",
      "noun.possession",  "noun.process",       "noun.quantity",
      "noun.relation",    "noun.shape",         "noun.state",
      "noun.substance",   "noun.time",          "verb.body",
      "verb.change",      "verb.cognition",     "verb.communication",
      "verb.competition", "verb.consumption",   "verb.contact",
      "verb.creation",    "verb.emotion",       "verb.motion",
      "verb.perception",  "verb.possession",    "verb.social",
      "verb.stative",     "verb.weather",       "adj.ppl"};
  return names;
}

Synset parse_synset(const std::string& line, const std::string& where) {
  const auto need = [&](bool ok) {
    CBWC_CHECK(ok, where, ": not a WordNet synset: '", line.substr(0, 60), "'");
  };
  const size_t bar = line.find(" | ");
  need(bar != std::string::npos);
  std::istringstream fields(line.substr(0, bar));
  std::string offset, type, word, lex_id;
  int count = 0;
  Synset synset;
  fields >> offset >> std::dec >> synset.file >> type >> std::hex >> count;
  need(!fields.fail() && count > 0 && synset.file >= 0 && synset.file < kLexicographerFiles);
  synset.part_of_speech = part_of_speech(type);
  for (int i = 0; i < count; ++i) {
    fields >> word >> lex_id;
    need(!fields.fail());
    if (word.back() == ')') word.resize(word.rfind('('));  // syntactic marker: "galore(ip)"
    for (char& c : word)
      if (c == '_') c = ' ';
    synset.words.push_back(word);
  }
  synset.gloss = line.substr(bar + 3);
  synset.gloss.erase(synset.gloss.find_last_not_of(" \r") + 1);
  return synset;
}

Gloss split_gloss(const std::string& gloss) {
  Gloss out;
  const size_t first = gloss.find('"') == 0 ? 0 : gloss.find("; \"");
  out.definition = gloss.substr(0, first);
  if (first == std::string::npos) return out;
  for (size_t open = gloss.find('"', first); open != std::string::npos;) {
    const size_t close = gloss.find('"', open + 1);
    if (close == std::string::npos) break;
    out.examples.push_back(gloss.substr(open + 1, close - open - 1));
    open = gloss.find('"', close + 1);
  }
  return out;
}

WordnetCounts each_synset(const std::string& folder, const std::string& dataset,
                          const std::function<bool(const Synset&)>& f) {
  const auto path_of = [&](const char* name) {
    return (std::filesystem::path(folder) / name).string();
  };
  for (const char* name : kFiles)
    CBWC_CHECK(std::filesystem::exists(path_of(name)), dataset, ": there is no ", name, " in ",
               folder, ". Install it with: apt-get install wordnet-base");
  WordnetCounts counts;
  bool more = true;
  for (const char* name : kFiles) {
    const std::string path = path_of(name), content = read_file(path);
    counts.bytes += static_cast<int64_t>(content.size());
    if (!more) continue;
    each_line(content, [&](const std::string& line, int64_t number) {
      ++counts.lines;
      if (line.empty()) ++counts.empty_lines;
      if (line.empty() || line[0] == ' ') return true;  // the licence at the top is indented
      const std::string where = path + " line " + std::to_string(number);
      const Synset synset = parse_synset(line, where);
      CBWC_CHECK(invalid_utf8(line) == std::string::npos, where, ": not UTF-8");
      more = f(synset);
      if (more) ++counts.synsets;
      return more;
    });
  }
  return counts;
}

}  // namespace cbwc
