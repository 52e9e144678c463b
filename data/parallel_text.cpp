#include "core/check.h"
#include "data/dataset_parts.h"

namespace cbwc {

DatasetSummary build_parallel_text(bool two_tokenizers, const SequenceBuildOptions& options) {
  SequenceBuilder builder("parallel_text", SequenceKind::pairs, options);
  builder.two_tokenizers = two_tokenizers;
  builder.description = "line-aligned text of";
  builder.keys = "sources";
  int64_t empty = 0;
  for (const SequenceInput& input : builder.inputs(2)) {
    const std::string &from = input.files[0], &to = input.files[1];
    builder.description += " " + from + " " + to;
    const auto lines = [&](const std::string& path) {
      return clean_lines(read_file(path), path, builder.text_options(), builder.counts);
    };
    const std::vector<std::string> source = lines(from), target = lines(to);
    CBWC_CHECK(source.size() == target.size(), "parallel_text: ", from, " has ", source.size(),
               " lines and ", to, " has ", target.size(),
               "; line n of one must be the translation "
               "of line n of the other");
    for (size_t i = 0; i < source.size(); ++i) {
      if (source[i].empty() || target[i].empty())
        ++empty;
      else if (!builder.add(input, source[i], {.first = source[i], .second = target[i]}))
        break;
    }
  }
  builder.facts = {{"pairs with an empty side, left out", empty}};
  return builder.finish();
}

}  // namespace cbwc
