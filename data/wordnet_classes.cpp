#include "data/dataset_parts.h"
#include "data/wordnet.h"

namespace cbwc {

DatasetSummary build_wordnet_classes(const std::string& folder,
                                     const SequenceBuildOptions& options) {
  SequenceBuilder builder("wordnet_classes", SequenceKind::classification, options);
  builder.description = "WordNet glosses and their lexicographer files, from " + folder;
  builder.classes = lexicographer_files();
  const WordnetCounts counts = each_synset(folder, "wordnet_classes", [&](const Synset& synset) {
    return builder.add({}, synset.gloss, {.first = synset.gloss, .label = synset.file});
  });
  builder.counts.bytes = counts.bytes;
  builder.counts.lines = counts.lines;
  builder.counts.empty_lines = counts.empty_lines;
  return builder.finish();
}

}  // namespace cbwc
