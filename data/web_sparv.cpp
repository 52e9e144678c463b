#include <unordered_map>

#include "core/check.h"
#include "data/bible.h"
#include "data/dataset_parts.h"
#include "data/process.h"

namespace cbwc {
namespace {

std::vector<Verse> read_module(const std::string& module, const std::string& package) {
  const ProcessResult result = run_process({"mod2imp", module}, "libsword-utils");
  CBWC_CHECK(result.exit_code == 0 && !result.out.empty(), "web_sparv: mod2imp ", module, ": ",
             first_line(result.err), ". Install it with: apt-get install ", package);
  return parse_imp(result.out, "mod2imp " + module);
}

}  // namespace

DatasetSummary build_web_sparv(bool two_tokenizers, const SequenceBuildOptions& options) {
  const std::vector<Verse> english = read_module("engWEB2015eb", "sword-text-web");
  const std::vector<Verse> spanish = read_module("spaRV1909eb", "sword-text-sparv");
  SequenceBuilder builder("web_sparv", SequenceKind::pairs, options);
  builder.description =
      "the World English Bible and the Reina-Valera of 1909, paired by book, chapter and verse";
  builder.two_tokenizers = two_tokenizers;
  std::unordered_map<std::string, const Verse*> by_key;
  for (const Verse& verse : spanish) by_key.emplace(verse.key(), &verse);
  builder.keys = "chapters";
  int64_t empty = 0;
  for (const Verse& verse : english) {
    const auto other = by_key.find(verse.key());
    if (other == by_key.end()) continue;
    if (verse.text.empty() || other->second->text.empty()) {
      ++empty;
      continue;
    }
    // Whole chapters: a verse's neighbours tell much of it.
    const bool more =
        builder.add({}, verse.section(), {.first = verse.text, .second = other->second->text});
    if (!more) break;
  }
  builder.facts = {{"verses of the source", static_cast<int64_t>(english.size())},
                   {"verses of the target", static_cast<int64_t>(spanish.size())},
                   {"pairs with an empty side, left out", empty}};
  return builder.finish();
}

}  // namespace cbwc
